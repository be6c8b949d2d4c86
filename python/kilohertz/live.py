"""A robot that runs while Python is beside the loop: its state, commands, parameters and targets."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import Command, KilohertzError, RobotError, State
from ._signals import _signals
from .connection import _index
from .summary import Summary, _summary


class LiveParameters(MutableMapping[str, float]):
    """The parameters of a running robot by their names. An assignment returns when a tick has taken the value;
    ValueError says why a value is not taken, and KeyError which names there are."""

    def __init__(self, native: _native.Run) -> None:
        self._native = native

    def __getitem__(self, name: str) -> float:
        return self._native.parameters[name]

    def __setitem__(self, name: str, value: float) -> None:
        self._native.set_parameters({name: value})

    def __delitem__(self, name: str) -> None:
        raise TypeError("a parameter stays as long as its robot runs")

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.parameters)

    def __len__(self) -> int:
        return len(self._native.parameters)

    def update(self, *others: Any, **values: float) -> None:
        """Changes several in one tick: all of them, or none."""
        self._native.set_parameters(dict(*others, **values))

    def describe(self) -> list[dict[str, Any]]:
        """Of each its `name`, `type`, `unit`, `min`, `max`, `default`, `text` and `value`."""
        described: list[dict[str, Any]] = json.loads(self._native.parameters.json())
        return described

    def __repr__(self) -> str:
        return f"<LiveParameters: {', '.join(f'{name}={value!r}' for name, value in self.items())}>"


class Live:
    """A robot running while Python does as it likes: `state()` and `send()` never wait for the loop."""

    def __init__(self, native: _native.Run, servos: list[str], report: bool = True) -> None:
        self._native = native
        self._report = report
        self._summary: Summary | None = None
        self._error: RobotError | None = None
        self.servos = servos
        """Names of the servos, in the order of all arrays."""
        self.parameters = LiveParameters(native)
        """The parameters that the robot file declares; `live.parameters["kp"] = 0.4` changes one."""
        # The loop's thread must be gone before the interpreter is.
        self._finalizer = weakref.finalize(self, _bring_down, native)

    def state(self) -> State:
        """The newest state, as arrays that are not overwritten."""
        return self._native.state()

    def command(self) -> Command:
        """A command to fill in: hold every joint where it is now."""
        return self._native.command()

    def send(
        self,
        command: Command | None = None,
        *,
        position: npt.ArrayLike | None = None,
        velocity: npt.ArrayLike | None = None,
        torque: npt.ArrayLike | None = None,
        over: float = 0.0,
    ) -> None:
        """Hands the loop a command: one from `command()`, or one made of the given values. Positions go to their
        targets in a straight line within `over` seconds; those of a robot with the controller `targets` as a chunk of two points,
        smoothly and within the limits. RobotError says why a robot is down that takes none any more."""
        self._check_up()
        command = command if command is not None else self.command()
        for name, value in (("position", position), ("velocity", velocity), ("torque", torque)):
            if value is not None:
                setattr(command, name, value)
        self._native.send(command, over)

    def targets(
        self, name: str, *, rate_hz: float | None = None, priority: int = 5, take: bool = False
    ) -> Targets:
        """Sends targets to a robot with the controller `targets`, under this name. `rate_hz` says how often single targets
        come; otherwise that is learned. A program of higher `priority` (0 to 9), or of the same with `take`, takes the robot
        from another one."""
        return Targets(self, name, rate_hz, priority, take)

    def inject(self, kind: str, servo: str | None = None, value: float = 1.0) -> None:
        """Puts a fault into the emulated devices; see `Connection.inject`."""
        self._native.inject(kind, _index(self.servos, servo), value)

    def arm(self) -> None:
        """Arms a robot that waits for it, with `supervisor.arming = "operator"`. KilohertzError if it does not wait."""
        self._native.arm()

    @property
    def over(self) -> bool:
        """Whether the robot is down."""
        return self._summary is not None or self._error is not None or self._native.over

    def stop(self) -> Summary:
        """Brings the robot down gently, waits until it is, and returns the figures."""
        self._native.stop()
        return self.wait()

    def wait(self) -> Summary:
        """Waits until the robot is down, and returns the figures. Raises as `Robot.run`, and the same each time."""
        if self._error is not None:
            raise self._error
        if self._summary is None:
            first = self._finalizer.detach()
            try:
                self._summary = _summary(self._native, self._native.finish(), self._report)
            except RobotError as error:
                self._error = error
                raise
            finally:
                if first:
                    _signals.end()
        return self._summary

    def _check_up(self) -> None:
        """Raises why the robot is down, or comes down."""
        if self.over or self._native.phase in ("damping", "stopped", "fault"):
            raise RobotError(f"the robot is down: {self.wait()['end']}")

    def _await(self, seconds: float) -> None:
        """Until the robot is under control and every joint has a state."""
        until = time.monotonic() + seconds
        try:
            while self._native.phase != "active" or not np.isfinite(self.state().position).all():
                self._check_up()
                if time.monotonic() > until:
                    raise RobotError(f"the robot is not under control after {seconds} s: it is {self._native.phase}")
                time.sleep(0.002)
        except BaseException:
            if self._summary is None:
                with suppress(RobotError):
                    self.stop()
            raise

    def __repr__(self) -> str:
        return f"<Live: {', '.join(self.servos)}, {'down' if self.over else 'running'}>"

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._summary is not None or not self._finalizer.alive:
            return
        try:
            self.stop()
        except RobotError:
            # What is under way says more than what became of the robot.
            if error is None:
                raise


class Targets:
    """Sends targets of one program: see `Live.targets`. The loop keeps the motion smooth and within the limits of its robot file.

    `send` and `chunk` return None if the targets are taken, otherwise why not: `"late"`, `"held"` (another program has the
    robot), `"duplicate"`, `"out_of_order"`, `"future"` or `"flood"`."""

    def __init__(self, live: Live, name: str, rate_hz: float | None, priority: int, take: bool) -> None:
        self._live = live
        self._who: dict[str, Any] = {"from": name, "priority": priority, "take": take}
        if rate_hz is not None:
            self._who["rate_hz"] = rate_hz

    def send(
        self,
        position: npt.ArrayLike | Mapping[str, float],
        *,
        velocity: npt.ArrayLike | Mapping[str, float] | None = None,
        torque: npt.ArrayLike | Mapping[str, float] | None = None,
        at: float | None = None,
    ) -> str | None:
        """A target for every joint, or for some by their names, rad. `at` is the time of `time.monotonic()` it is meant for; without it,
        now."""
        values = {"position": position, "velocity": velocity, "torque": torque}
        given = {key: value for key, value in values.items() if value is not None}
        message: dict[str, Any] = {"at": [_microseconds_of(time.monotonic() if at is None else at)]}
        if isinstance(position, Mapping):
            message["joints"] = list(position)
            named = {key: dict(cast(Mapping[str, float], value)) for key, value in given.items()}
            message |= {key: [[float(value[name]) for name in position]] for key, value in named.items()}
        else:
            message |= {key: [_rows(cast(npt.ArrayLike, value))] for key, value in given.items()}
        return self._send(message)

    def chunk(
        self,
        positions: npt.ArrayLike,
        *,
        start: float,
        dt: float,
        names: Sequence[str] | None = None,
        velocity: npt.ArrayLike | None = None,
        torque: npt.ArrayLike | None = None,
    ) -> str | None:
        """Up to 256 targets, a row each, the first for `start` of `time.monotonic()`, one every `dt` seconds. They replace what was
        to come after the first."""
        rows = _rows(positions)
        message: dict[str, Any] = {
            "at": [_microseconds_of(start + number * dt) for number in range(len(rows))],
            "position": rows,
        }
        message |= {key: _rows(value) for key, value in (("velocity", velocity), ("torque", torque)) if value is not None}
        if names is not None:
            message["joints"] = list(names)
        return self._send(message)

    def hold(self, seconds: float) -> None:
        """Nothing will come for so long, and that is no silence."""
        self._send({"hold_s": seconds})

    def release(self) -> None:
        """This program is done: the robot stands, others may have it, and nothing more is expected."""
        self._send({"release": True})

    @property
    def status(self) -> dict[str, Any]:
        """How the robot stands, and what became of the targets of everybody who sends any."""
        answer = self._answer({"status": True})
        status: dict[str, Any] = answer["status"]
        return status

    def _send(self, message: dict[str, Any]) -> str | None:
        answer = self._answer(message)
        why: str | None = answer.get("refused")
        if why == "invalid":
            raise ValueError(answer["why"])
        if why == "not_active":
            self._live._check_up()
            raise KilohertzError("the robot is not under control yet: `start(wait=10)` waits until it is")
        return why

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            text = json.dumps(self._who | message, allow_nan=False)
        except ValueError:
            raise ValueError("a target is NaN or infinite; nothing of it was sent") from None
        answer: dict[str, Any] = json.loads(self._live._native.target(text))
        return answer


def _rows(values: npt.ArrayLike) -> Any:
    return np.asarray(values, dtype=float).tolist()


def _microseconds_of(seconds: float) -> int:
    return round(seconds * 1e6)


def _bring_down(native: _native.Run) -> None:
    try:
        native.stop()
        native.finish()
    finally:
        _signals.end()
