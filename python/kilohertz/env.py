"""Reinforcement learning: the whole emulated robot as a Gymnasium environment."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import Command, Mapped, StartError, State
from ._notebook import table
from .robot import Robot

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as missing:
    text = "kilohertz.Env needs the package gymnasium: pip install gymnasium"
    raise ImportError(text, name=missing.name) from missing

Array: TypeAlias = npt.NDArray[np.float32]
Info: TypeAlias = dict[str, Any]
Policy: TypeAlias = Callable[[Array], npt.ArrayLike]
Range: TypeAlias = float | tuple[float, float]

#: A decision takes no longer: a day at 1 kHz.
_MOST_TICKS = 86_400_000

#: Beyond that a joint has nothing to do with what was found.
_MOST_SHARE = 10

#: What `randomise` may change, with its unit.
RANDOMISED = {
    "turnaround": "µs from the end of a request to the start of its reply, on every emulated bus",
    "loss": "share of frames lost on every bus",
    "latency": "µs that every reply arrives later",
    "payload": "kg added to the trunk",
    "friction": "friction of the ground",
    "motor_constant": "torque per torque that the servos believe to give",
    "joints": "share of the `uncertainty` that the robot file has of its joints",
}


class Controller:
    """A policy as a controller of the loop: it decides as often as in its environment, from the same observations."""

    def __init__(
        self,
        robot: Robot,
        mapped: Mapped,
        pose: npt.NDArray[np.float64],
        policy: Policy,
        decision_hz: float,
        rise: float,
        delay_ticks: int = 0,
    ) -> None:
        self._servos, self._mapped, self._pose, self._policy = robot.servos, mapped, pose, policy
        self._decision_hz, self._rise = decision_hz, rise
        if delay_ticks:
            # The loop asks only where a decision begins, and follows it so many ticks later.
            self.decision_hz, self.delay_ticks = decision_hz, delay_ticks
        self._every, self._stride, self._tick, self._rise_ticks = 1, 1, 0, 0
        self._found = pose
        self._action = np.zeros(len(pose), dtype=np.float32)

    def start(self, state: State) -> None:
        """Begins anew where the joints are. Raises ValueError if the robot's servos are not the environment's, in their order, or
        the loop cannot decide as often as the environment did."""
        if state.servos != self._servos:
            raise ValueError(f"the policy is for the servos {', '.join(self._servos)}; this robot has {', '.join(state.servos)}")
        self._every = _ticks(1 / state.dt, self._decision_hz)
        self._stride = self._every if hasattr(self, "delay_ticks") else 1
        self._tick, self._rise_ticks = 0, self._stride * round(self._rise / state.dt / self._stride)
        self._found = state.position.copy()
        self._action[:] = 0

    def update(self, state: State, command: Command) -> None:
        """Glides to the pose, then carries out what the policy decides."""
        if self._tick < self._rise_ticks:
            share = self._tick / self._rise_ticks
            command.position = self._found + (self._pose - self._found) * (share * share * (3 - 2 * share))
        elif (self._tick - self._rise_ticks) % self._every == 0:
            self._action = self._mapped.command(self._policy(self._mapped.observe(state, self._action)), command)
        self._tick += self._stride


def forward_speed(info: Info) -> Any:
    """The reward of an `Env` without one of its own: speed forwards, m/s, minus 0.001 per watt of the servos. Of a `VecEnv`, one for
    each robot."""
    return info["velocity"][..., 0] - 0.001 * info["power"]


class Env(gymnasium.Env[Array, Array]):
    """An emulated robot, its buses, servos, supervisor and body, in virtual time: one `step` is one decision.

    >>> env = kilohertz.Env.template("quadruped_mujoco", keyframe="stand")         # doctest: +SKIP
    >>> observation, info = env.reset(seed=1)                                      # doctest: +SKIP
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())     # doctest: +SKIP

    An action has one number from −1 to 1 per servo: 0 is the pose, 1 and −1 are the joint's position limits, or the pose
    ± `action_scale` rad, within the limits. Actions beyond are clipped. The servos follow the target with their own gains until the
    next decision, as they would that of a controller in the loop.

    An observation has, in the order of the robot file: joint angles minus the pose (rad), joint velocities (rad/s), the direction
    of gravity in the trunk's frame (unit vector; upright is 0, 0, −1) and its angular rate (rad/s), these six only with an IMU,
    and the last action. All are what the loop knows: measured, quantised and as old as their replies.

    With `policy=True` both are those of the robot file's `[controller]` with `name = "policy"`: its terms, scales, history, rate,
    delay, and what its model says. The model need not be there yet. A policy that is learned so does in `khz run` what it did here,
    to the last bit.

    An episode is terminated when the supervisor takes the robot away from the controller, when the trunk is tilted by more
    than `max_tilt`, or is lower than `min_height`; it is truncated after `episode` seconds.

    `info`: `time` (s since the episode began), `end` (None, or why it is terminated), `faults` (by servo, its family's code),
    `missed` and `late` (replies since the last decision), `power` (W: the servos' torque times velocity, without its sign, as they
    report it, on average since the last decision), `position` (m), `attitude` (quaternion w, x, y, z), `velocity` (m/s: forwards, to the left, up; on average since
    the last decision) and `rate` (rad/s) of the trunk as the simulation knows them, and after `reset` `randomised`. A body without
    a trunk stands still at 0.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        robot: Robot | str | os.PathLike[str],
        *,
        decision_hz: float | None = None,
        delay_ticks: int | None = None,
        reward: Callable[[Info], Any] = forward_speed,
        pose: npt.ArrayLike | None = None,
        keyframe: str | None = None,
        action_scale: npt.ArrayLike | None = None,
        episode: float | None = 20.0,
        max_tilt: float = 1.0,
        min_height: float | None = None,
        randomise: Mapping[str, Range] | None = None,
        policy: bool = False,
        rise: float | None = None,
        signals: Callable[[Info], Mapping[str, Any]] | None = None,
    ) -> None:
        """The robot of a file, decided about `decision_hz` times a second (50), a whole number of ticks apart. With `delay_ticks` a
        decision is followed so many ticks after the state that it is of, at most until the next one, as that of a controller that takes
        its time; until the first is, joints stay where they are.

        `reward` makes a number of `info`. `pose` is what action 0 stands for, rad, within the position limits; without it, where the joints are at the start.
        `keyframe` replaces the one in which the model of the robot file starts. `action_scale`: rad, one for all or one per
        servo. `max_tilt`: rad, up to π, which is never reached. `min_height`: m; without it, half the height at the start. `randomise` maps keys (`turnaround`, `loss`, `latency`,
        `payload`, `friction`, `motor_constant`: see `RANDOMISED`) to a value or a range, from which each `reset` draws evenly. With
        `joints` it draws each value of a joint that has an `uncertainty` in the robot file from a normal distribution so wide times the
        key's value: 1 is what `khz identify --write` found. A joint's value has a name of its own, too: `elbow.coulomb`.
        `signals`: what the file's policy is told from outside (its terms `signal` and `contact`), from `info`, before each observation.
        `policy`: see above; then `decision_hz`, `delay_ticks`, `pose` and `action_scale` are the file's. `rise`: s, in place of its `start_s`; 0 where
        the model's keyframe is the default posture.

        Raises ValueError for what does not fit the robot, StartError if it cannot be emulated."""
        self.robot = robot if isinstance(robot, Robot) else Robot(robot)
        self._reward = reward
        self._keyframe = keyframe
        self._ranges = _ranges(self.robot, randomise or {})
        self._policy, self._rise, self._signals = policy, rise, signals
        if not 0 < max_tilt <= math.pi:
            raise ValueError(f"max_tilt is {max_tilt:g}; it is an angle from 0 to π, rad")
        if min_height is not None and not math.isfinite(min_height):
            raise ValueError(f"min_height is {min_height:g}; it is a height in m")
        if episode is not None and not 0 < episode < math.inf:
            raise ValueError(f"episode is {episode:g}; it is a time in seconds, or None for no end")
        self.max_tilt, self.min_height = max_tilt, min_height
        self._cos_tilt = math.cos(max_tilt)
        self._lowest = -math.inf
        self._mapped: Mapped | None
        if policy:
            given = {"decision_hz": decision_hz, "delay_ticks": delay_ticks, "pose": pose, "action_scale": action_scale}
            _refuse(given, "the robot file's policy has its own")
            self.ticks, self._size, bounds, posture = self.robot._native.policy(rise)
            self.pose, self._mapped = np.array(posture), None
            low, high = np.array(bounds, dtype=np.float32).T
            self.action_space = spaces.Box(low, high, dtype=np.float32)
        else:
            _refuse({"rise": rise, "signals": signals}, "it is of the robot file's policy: write policy=True")
            self.ticks = _ticks(self.robot.rate_hz, 50.0 if decision_hz is None else decision_hz)
            """Ticks between two decisions."""
            self._delay = delay_ticks or 0
            if not 0 <= self._delay <= self.ticks:
                raise ValueError(f"delay_ticks is {delay_ticks}; it is from 0 to the {self.ticks} ticks to the next decision")
            if pose is None:
                pose = np.clip(self._start(None, []).joints, *_limits(self.robot))
            self.pose, self._mapped = _mapped(self.robot, pose, action_scale, self._delay)
            """Joint angles that action 0 stands for, rad."""
            self._size = self._mapped.size
            self.action_space = spaces.Box(-1, 1, self.pose.shape, np.float32)
        self._decisions = math.inf if episode is None else max(1, round(episode * self.robot.rate_hz / self.ticks))
        self.observation_space = spaces.Box(-np.inf, np.inf, (self._size,), np.float32)
        self._stepper: _native.Stepper | None = None
        self._done = 0

    @classmethod
    def template(cls, name: str, **options: Any) -> Env:
        """Of a robot that comes with the package (see `Robot.template`); `options` as above."""
        return cls(Robot.template(name), **options)

    def _repr_html_(self) -> str:
        low, high = _limits(self.robot)
        joints = zip(self.robot.servos, self.pose, low, high, strict=True)
        rows = ((name, f"{angle:.3f}", f"{least:g} to {most:g}") for name, angle, least, most in joints)
        decision = f"{self.robot.rate_hz / self.ticks:g} Hz, {self.ticks} ticks of {self.robot.name} each"
        sizes = f"{self._size} observations, {len(self.pose)} actions"
        randomised = "; ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in self._ranges.items())
        note = f"randomised: {randomised}" if randomised else ""
        return table(f"decisions at {decision}; {sizes}", rows, ("servo", "pose (rad)", "limits (rad)"), note)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        """Starts the robot anew, under control and at rest, with noise, faults and draws from the seed. `options` replaces draws of
        `randomise` for this episode: `{"friction": 0.5}`. Each episode draws a seed of its own from it, `info["seed"]`:
        `Robot.run(seed=…, virtual_time=True)` with that has the same noise and faults."""
        super().reset(seed=seed)
        self._stepper = None
        seed, values = self._draw(self.np_random, options)
        stepper = self._start(seed, list(values.items()))
        self._stepper, self._done = stepper, 0
        posture = stepper.posture
        self._lowest = self._floor(-math.inf if posture is None else posture[1])
        info = self._info(stepper)
        info["end"], info["randomised"], info["seed"] = None, values, seed
        return stepper.observe(self._size, self._mapped), info

    def step(self, action: npt.NDArray[Any]) -> tuple[Array, float, bool, bool, Info]:
        """Carries out a decision and runs to the next one."""
        stepper = self._running()
        stepper.decide(action, self.ticks, self._mapped)
        self._done += 1
        info = self._info(stepper)
        seen = stepper.observe(self._size, self._mapped)
        cosine, height = stepper.posture or (math.nan, math.nan)
        end = info["end"] = self._end(stepper.active, cosine, height, self._lowest, lambda: stepper.end)
        terminated = end is not None
        truncated = not terminated and self._done >= self._decisions
        # A simulation that has diverged must not pay.
        reward = 0.0 if stepper.failed else float(self._reward(info))
        return seen, reward, terminated, truncated, info

    def _info(self, stepper: _native.Stepper) -> Info:
        """What happened; gives the policy its signals of that."""
        info: Info = stepper.info()
        for name, value in (self._signals(info) if self._signals else {}).items():
            stepper.signal(name, value)
        return info

    def inject(self, kind: str, servo: str | None = None, value: float = 1.0) -> None:
        """Puts a fault into the emulated devices of this episode; see `Connection.inject`. Before the first `step` a `fault` is cleared at
        once, by the stop that is on its way to the servo."""
        index = 0 if servo is None else self.robot.servos.index(servo)
        self._running().inject(kind, index, value)

    def controller(self, policy: Policy, *, rise: float = 2.0) -> Controller:
        """A policy, a function from observation to action, as a controller for `Robot.run`, at the same rate and from the same
        observations. The robot first glides to the pose, within `rise` seconds. Its loop may have another rate than the
        environment's, of which the decisions are a whole number of ticks apart."""
        if self._mapped is None:
            raise ValueError("policy=True: the robot file has a controller for that: write the model, and run it without one")
        if not 0 <= rise < math.inf:
            raise ValueError(f"rise is {rise:g}; it is a time in seconds")
        return Controller(self.robot, self._mapped, self.pose, policy, self.robot.rate_hz / self.ticks, rise, self._delay)

    @property
    def state(self) -> State:
        """The robot as the loop knows it; see `State`."""
        return self._running().state

    @property
    def qpos(self) -> npt.NDArray[np.float64]:
        """Positions of all joints of a MuJoCo model, for its own tools."""
        return self._model()[0]

    @property
    def qvel(self) -> npt.NDArray[np.float64]:
        """Velocities of all joints of a MuJoCo model, for its own tools."""
        return self._model()[1]

    def _model(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        state = self._running().model_state
        if state is None:
            raise AttributeError("this robot has no MuJoCo model ([body] kind = \"mujoco\")")
        return state

    def _running(self) -> _native.Stepper:
        if self._stepper is None:
            raise gymnasium.error.ResetNeeded("call reset before anything else")
        return self._stepper

    def _draw(self, random: np.random.Generator, options: dict[str, Any] | None) -> tuple[int, dict[str, float]]:
        """Of an episode the seed, and what is drawn for it."""
        given = {name: float(value) for name, value in (options or {}).items()}
        if given:
            _check(self.robot, given)
        values = {name: float(random.uniform(low, high)) for name, (low, high) in self._ranges.items()} | given
        if "joints" in values:
            deviations = values.pop("joints") * random.standard_normal(self.robot._native.uncertain)
            values = dict(self.robot._native.drawn(deviations.tolist())) | values
        return int(random.integers(2**63)), values

    def _start(self, seed: int | None, values: list[tuple[str, float]]) -> _native.Stepper:
        stepper = self.robot._native.stepper(
            seed=seed, values=values, keyframe=self._keyframe, policy=self._policy, rise=self._rise
        )
        if not stepper.active:
            raise _did_not_start(stepper.end)
        return stepper

    def _floor(self, height: Any) -> Any:
        """How low the trunk may come that stood so high at the start, m."""
        return 0.5 * height if self.min_height is None else self.min_height

    def _end(
        self, active: bool, cosine: float, height: float, lowest: float, why: Callable[[], str | None]
    ) -> str | None:
        """Why the episode is over, if it is; `cosine` of the tilt and `height` of the trunk, NaN without one."""
        if not active:
            return why() or "brought down"
        if cosine < self._cos_tilt:
            return f"tilted by more than {self.max_tilt:g} rad"
        if height < lowest:
            return f"lower than {lowest:.3g} m"
        return None


def _did_not_start(why: str | None) -> StartError:
    why = why or "its servos did not all answer for some ticks in a row; is it loss or latency?"
    return StartError(f"the robot did not come under control: {why}")


def _refuse(given: Mapping[str, Any], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is given, and {why}")


def _limits(robot: Robot) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    limits = [limits or (-math.inf, math.inf) for limits in robot._native.limits]
    low, high = np.array(limits, dtype=float).T
    return low, high


def _mapped(
    robot: Robot, wanted: npt.ArrayLike, scale: npt.ArrayLike | None, delay: int
) -> tuple[npt.NDArray[np.float64], Mapped]:
    """The pose within the limits, and what actions mean around it."""
    low, high = _limits(robot)
    pose = _each(robot, "pose", wanted)
    for name, least, angle, most in zip(robot.servos, low, pose, high, strict=True):
        if not least <= angle <= most:
            raise ValueError(f"pose: {name} at {angle:g} rad is beyond its limits, {least:g} to {most:g} rad")
    if scale is not None:
        below = above = _each(robot, "action_scale", scale)
        if (below <= 0).any():
            raise ValueError("action_scale: an angle greater than 0, rad")
    else:
        for name, least, most in zip(robot.servos, low, high, strict=True):
            if math.isinf(least) or math.isinf(most):
                text = f"{name} has no position limits in the robot file: give `action_scale`, rad, or set `limits.position`"
                raise ValueError(text)
        below, above = pose - low, high - pose
    numbers = Mapped(
        pose.tolist(), below.tolist(), above.tolist(), low.tolist(), high.tolist(), robot._native.has_imu, delay
    )
    return pose, numbers


def _each(robot: Robot, what: str, given: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """One number for each servo, rad."""
    numbers = np.asarray(given, dtype=float)
    if numbers.shape not in ((), (len(robot.servos),)):
        raise ValueError(f"{what} has the shape {numbers.shape}; it is one number, or one for each of the {len(robot.servos)} servos")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{what} is {numbers}; it is angles in rad")
    return np.broadcast_to(numbers, (len(robot.servos),))


def _ticks(rate_hz: float, decision_hz: float) -> int:
    ticks = round(rate_hz / decision_hz) if decision_hz > rate_hz / _MOST_TICKS else 0
    if ticks < 1 or abs(rate_hz / ticks - decision_hz) > 1e-6 * decision_hz:
        raise ValueError(f"decision_hz is {decision_hz:g}; a decision must be a whole number of ticks, of which there are {rate_hz:g} a second")
    return ticks


def _ranges(robot: Robot, randomise: Mapping[str, Range]) -> dict[str, tuple[float, float]]:
    ranges = {}
    for name, given in randomise.items():
        ends = given if isinstance(given, tuple | list) else (given, given)
        if len(ends) != 2:
            raise ValueError(f"randomise: {name} is {given}; it is a number, or the smallest and the largest")
        low, high = ends
        if not low <= high:
            raise ValueError(f"randomise: {name} is ({low}, {high}); the smaller number comes first")
        ranges[name] = (float(low), float(high))
    # Both ends may be in a robot file, so all between may.
    for end in (0, 1):
        _check(robot, {name: values[end] for name, values in ranges.items()})
    return ranges


def _check(robot: Robot, values: Mapping[str, float]) -> None:
    share = values.get("joints", 0.0)
    if not 0 <= share <= _MOST_SHARE:
        raise ValueError(f"joints is {share:g}; it is from 0, as the robot file has them, to {_MOST_SHARE} times its `uncertainty`")
    robot._native.check_values([(name, value) for name, value in values.items() if name != "joints"])
