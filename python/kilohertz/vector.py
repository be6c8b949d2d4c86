"""Reinforcement learning with many robots at once: `Env`, several of them side by side on threads."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from .env import Array, Env, Info, _did_not_start
from .robot import Robot

#: What no `info` of an `Env` has.
_INTERNAL = ("active", "failed", "posture")


class VecEnv(gymnasium.vector.VectorEnv[Array, Array, npt.NDArray[Any]]):
    """Several `Env` of one robot file, stepped in one call on threads of Rust, without Python's lock.

    >>> envs = kilohertz.VecEnv("quadruped_mujoco.toml", 16, keyframe="stand")     # doctest: +SKIP
    >>> observations, info = envs.reset(seed=1)                                    # doctest: +SKIP
    >>> observations, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())     # doctest: +SKIP

    Each robot is to the last bit that of an `Env` with its seed, `seed + number`, on any number of threads.

    What comes back has one row for each robot, and is not rewritten later: the threads write observations into the array that is
    returned. The entries of `info` are those of an `Env`, as arrays; `faults` has the code of each servo, 0 for none. `reward` is
    called once, with all of it, and makes one number for each robot: `info["velocity"][..., 0]`, not `[0]`. So is `signals`: a number for
    each robot, or one for all.

    A robot whose episode is over begins anew in the next step, alone: it takes no action, its reward is 0, and what is seen is of
    its new beginning (Gymnasium's `AutoresetMode.NEXT_STEP`).
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(
        self, robot: Robot | str | os.PathLike[str], num_envs: int, *, threads: int | None = None, **options: Any
    ) -> None:
        """So many robots of a file, on so many `threads`: without a number, as many as this process has CPUs. `options` are those of
        `Env`.

        Raises ValueError for what does not fit the robot, StartError if it cannot be emulated."""
        for name, number in (("num_envs", num_envs), ("threads", 1 if threads is None else threads)):
            if number < 1:
                raise ValueError(f"{name} is {number}; it is at least 1")
        self.env = Env(robot, **options)
        """What each of them is: its pose, ticks and limits."""
        self.num_envs = num_envs
        env = self.env
        self._robots = env.robot._native.steppers(
            num_envs,
            threads=threads,
            ticks=env.ticks,
            size=env._size,
            mapped=env._mapped,
            keyframe=env._keyframe,
            policy=env._policy,
            rise=env._rise,
        )
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(env.observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(env.action_space, num_envs)
        self._randoms: list[np.random.Generator] | None = None
        self._over = np.ones(num_envs, dtype=bool)
        self._done = np.zeros(num_envs)
        self._lowest = np.zeros(num_envs)
        self._drawn: list[dict[str, float]] = [{} for _ in range(num_envs)]

    @classmethod
    def template(cls, name: str, num_envs: int, **options: Any) -> VecEnv:
        """Of a robot that comes with the package (see `Robot.template`); `options` as above."""
        return cls(Robot.template(name), num_envs, **options)

    @property
    def threads(self) -> int:
        """On how many threads they are stepped."""
        return self._robots.threads

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, Info]:
        """Starts all robots anew. `seed`: a number, to which each adds its own, or one for each robot. `options` as of `Env.reset`, for
        all of them."""
        seeds = self._seeds(seed)
        if self._randoms is None:
            self._randoms = [seeding.np_random(one)[0] for one in seeds]
        else:
            again = zip(self._randoms, seeds, strict=True)
            self._randoms = [old if one is None else seeding.np_random(one)[0] for old, one in again]
        self._over[:] = True
        still = np.zeros(self.action_space.shape or (), dtype=np.float32)
        seen, info, _ = self._step(still, options)
        self._over[:] = False
        return seen, info

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[Array, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], Info]:
        """Carries out a decision of each robot, and runs to the next one."""
        if self._randoms is None:
            raise gymnasium.error.ResetNeeded("call reset before anything else")
        given = np.ascontiguousarray(actions, dtype=np.float32)
        if given.shape != self.action_space.shape:
            raise ValueError(f"the actions have the shape {given.shape}; it is {self.action_space.shape}")
        begun = self._over.copy()
        self._done += 1
        seen, info, internal = self._step(given, None)
        terminated = self._ends(info, internal, ~begun)
        truncated = ~terminated & (self._done >= self.env._decisions) & ~begun
        rewards = np.array(self.env._reward(info), dtype=float)
        if rewards.shape != (self.num_envs,):
            raise ValueError(f"the reward has the shape {rewards.shape}; of a VecEnv it is called once, and makes one for each robot")
        # A simulation that has diverged must not pay, and neither does a beginning.
        rewards[internal["failed"] | begun] = 0.0
        self._over = terminated | truncated
        return seen, rewards, terminated, truncated, info

    def _seeds(self, seed: int | list[int | None] | None) -> list[int | None]:
        if seed is None or isinstance(seed, int | np.integer):
            return [None if seed is None else int(seed) + number for number in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"there are {len(seed)} seeds for {self.num_envs} robots")
        return list(seed)

    def _step(self, actions: Array, options: dict[str, Any] | None) -> tuple[Array, Info, Info]:
        """Those that are over begin anew, the others carry out their actions. The last is what no `info` of an `Env` has."""
        assert self._randoms is not None
        begins = []
        for number in np.flatnonzero(self._over).tolist():
            seed, values = self.env._draw(self._randoms[number], options)
            self._drawn[number] = values
            begins.append((number, seed, list(values.items())))
        seen = self._robots.step(actions, begins, sees=self.env._signals is None)
        info: Info = self._robots.info()
        internal = {name: info.pop(name) for name in _INTERNAL}
        if self.env._signals is not None:
            seen = self._robots.signal(self._rows(self.env._signals(info)))
            # A policy that lacks a signal does not see, and is brought down for that.
            internal["active"] = self._robots.info()["active"]
        for number, _, _ in begins:
            if not internal["active"][number]:
                raise _did_not_start(self._robots.end(number))
            self._done[number] = 0
            self._lowest[number] = self.env._floor(internal["posture"][number, 1])
        info["end"] = np.full(self.num_envs, None)
        # What `options` set for one episode, those that have begun anew do not have.
        names = {name: None for drawn in self._drawn for name in drawn}
        info["randomised"] = {name: np.array([drawn.get(name, math.nan) for drawn in self._drawn]) for name in names}
        return seen, info, internal

    def _rows(self, signals: Mapping[str, npt.ArrayLike]) -> list[tuple[str, list[float]]]:
        rows = []
        for name, values in signals.items():
            array = np.asarray(values, dtype=float)
            if array.shape not in ((), (self.num_envs,)):
                raise ValueError(f"the signal `{name}` has the shape {array.shape}; it is a number for each of {self.num_envs} robots")
            rows.append((name, np.broadcast_to(array, self.num_envs).tolist()))
        return rows

    def _ends(self, info: Info, internal: Info, decided: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        over: npt.NDArray[np.bool_]
        cosines, heights = internal["posture"].T
        over = decided & (~internal["active"] | (cosines < self.env._cos_tilt) | (heights < self._lowest))
        for number in np.flatnonzero(over).tolist():
            info["end"][number] = self.env._end(
                bool(internal["active"][number]),
                cosines[number],
                heights[number],
                self._lowest[number],
                lambda number=number: self._robots.end(number),  # type: ignore[misc]
            )
        return over
