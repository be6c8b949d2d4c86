"""A robot that follows targets, in another process: what LeRobot's robots and teleoperators have in common."""

import math
import os
import time
from dataclasses import dataclass
from typing import Protocol

from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

from lerobot_robot_kilohertz.child import Child, RobotFile
from lerobot_robot_kilohertz.connection import Connection, Message, RobotDown

_LOOK_S = 0.01
# The most that a robot takes as a program's name, in bytes, less " asks".
_LONGEST_NAME = 59


class ArmConfig(Protocol):
    """What both kinds of options have."""

    id: str | None
    file: str
    at: str
    log: str
    khz: str
    unit: str
    priority: int
    hold_s: float
    wait_s: float


@dataclass
class Joints:
    """What was measured in one tick, and what was sent in it, by joint: rad, rad/s, N·m."""

    tick: int
    at_us: int
    age_us: int
    position: list[float]
    velocity: list[float]
    torque: list[float]
    command: list[float]


class Arm:
    """One robot: connected between `connect` and `disconnect`."""

    def __init__(self, config: ArmConfig, name: str, rate_hz: float = 0.0) -> None:
        """ValueError if the options are not those of one robot."""
        if bool(config.file) == bool(config.at):
            raise ValueError("say which robot: `file`, its robot file, or `at`, where one that runs receives targets")
        if config.unit not in ("rad", "deg"):
            raise ValueError(f"`unit` must be `rad` or `deg`, not `{config.unit}`")
        _check(config, rate_hz)
        self._config = config
        # Two of one name would be one program.
        self._name = f"{name} {os.getpid() if config.id is None else config.id}"
        if len(self._name.encode()) > _LONGEST_NAME:
            raise ValueError(f"`id` is too long: with it the robot's program is called `{name} …`, of {_LONGEST_NAME} bytes at most")
        self._about = {"priority": config.priority} | ({"rate_hz": rate_hz} if rate_hz else {})
        self._file = RobotFile(config.file, config.khz) if config.file else None
        self._child: Child | None = None
        self._connection: Connection | None = None
        self._joints: list[str] | None = self._file.joints if self._file else None
        self.limits: dict[str, tuple[float, float]] = {}
        self.began_us = 0
        # rad to what LeRobot sees.
        self.scale = 1.0 if config.unit == "rad" else math.degrees(1.0)

    @property
    def joints(self) -> list[str]:
        """Their names. Of a robot that runs, it is asked for them."""
        if self._joints is None:
            # Not by the name that drives: a program of that name that hangs up lets go.
            connection = Connection(self._config.at, f"{self._name} asks")
            try:
                self._joints = connection.look()["state"]["joints"]
            finally:
                connection.close()
        return self._joints

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    def connect(self) -> None:
        """Returns when the robot is active and every joint has a state. RobotDown with the reason, if that is not within `wait_s`."""
        if self.is_connected:
            raise DeviceAlreadyConnectedError(f"{self} is connected")
        end = time.monotonic() + self._config.wait_s
        try:
            if self._file:
                self._child = Child(self._file, self._config.log)
            self._connection = self._connected(end)
            self._await(self._connection, end)
        except BaseException:
            self.disconnect()
            raise

    def state(self) -> Joints:
        """RobotDown if the robot is not active, or a joint has no state: there is never a NaN in it."""
        return self._judged(self._looked())

    def send(self, joints: list[str], **rows: list[float]) -> None:
        """Sends targets of these joints for now, and that nothing may come for `hold_s`; errors as `Connection.send`."""
        try:
            self._open().send(joints=joints, hold_s=self._config.hold_s, **rows)
        except RobotDown as error:
            raise self._with_cause(error) from error

    def disconnect(self) -> None:
        """Lets go of the robot; one that was started here comes down. Not connected, it does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def __str__(self) -> str:
        return f"{self._name} ({self._config.file or self._config.at})"

    def _open(self) -> Connection:
        if self._connection is None:
            raise DeviceNotConnectedError(f"{self} is not connected")
        return self._connection

    def _connected(self, end: float) -> Connection:
        child = self._child
        while True:
            try:
                return Connection(child.at if child else self._config.at, self._name, **self._about)
            except RobotDown as error:
                # One that was started here may take a while.
                if child is None:
                    raise
                if child.is_over() or time.monotonic() > end:
                    raise self._with_cause(error) from error
            time.sleep(_LOOK_S)

    def _await(self, connection: Connection, end: float) -> None:
        while True:
            try:
                state = connection.look()["state"]
            except RobotDown as error:
                raise self._with_cause(error) from error
            unknown = _unknown(state)
            if state["phase"] == "active" and not unknown:
                break
            if time.monotonic() > end:
                without = f", without a state of {', '.join(unknown)}" if unknown else ""
                raise RobotDown(f"{self} is not under control after {self._config.wait_s:g} s: it is {state['phase']}{without}")
            time.sleep(_LOOK_S)
        if self.joints != state["joints"]:
            raise ValueError(f"{self} has the joints {', '.join(state['joints'])} now, and had {', '.join(self.joints)}")
        limits = zip(state["joints"], state["limits"], strict=True)
        self.limits = {joint: tuple(limit) for joint, limit in limits if limit}
        self.began_us = state["at"]

    def _looked(self) -> Message:
        try:
            return self._open().look()
        except RobotDown as error:
            raise self._with_cause(error) from error

    def _judged(self, answer: Message) -> Joints:
        state = answer["state"]
        if state["phase"] != "active":
            # It says why when it is down.
            raise self._with_cause(RobotDown(self._open().reason() or f"{self} is not under control: it is {state['phase']}"))
        if unknown := _unknown(state):
            raise RobotDown(f"{self}: nothing is known of {', '.join(unknown)}")
        position, velocity, torque, command = (_numbers(state[key]) for key in ("position", "velocity", "torque", "command"))
        return Joints(answer["tick"], state["at"], max(state["age"]) + answer["now"] - state["at"], position, velocity, torque, command)

    def _with_cause(self, error: RobotDown) -> RobotDown:
        """With what the process has printed, if that is all there is to know."""
        child = self._child
        if child is not None and child.is_over() and not str(error).startswith("the robot is down") and child.reason():
            return RobotDown(child.reason())
        return error


def _check(config: ArmConfig, rate_hz: float) -> None:
    """ValueError for what the robot would refuse with the first action."""
    for name, number, low, high in (
        ("priority", config.priority, 0, 9),
        ("hold_s", config.hold_s, 0, 1e9),
        ("wait_s", config.wait_s, 0, 1e9),
        ("rate_hz", rate_hz or 1, 0.1, 1000),
    ):
        # A NaN is within nothing.
        if not low <= number <= high:
            raise ValueError(f"`{name}` must be {low:g} to {high:g}, not {number:g}")


def _numbers(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _unknown(state: Message) -> list[str]:
    """The joints without a position or a command: nothing was measured yet."""
    rows = zip(state["joints"], state["position"], state["command"], state["age"], strict=True)
    return [joint for joint, *values in rows if None in values]
