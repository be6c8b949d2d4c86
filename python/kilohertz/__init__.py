"""A robot's full control cycle a thousand times a second, with the controller in Python.

Quantities are in SI units: rad, rad/s, N·m, V, °C, seconds.

>>> import kilohertz
>>> def controller(state, command):
...     command.position = 0.2                      # every joint; NumPy arrays, one item per servo
>>> summary = kilohertz.Robot.quadruped().run(controller, duration=5.0)     # doctest: +SKIP
>>> summary.rate_hz, summary.missed_replies                                 # doctest: +SKIP
(1000.0, 0)
"""

from typing import TYPE_CHECKING, Any

from ._native import (
    BusError,
    ClosedError,
    Command,
    CommandError,
    ConfigError,
    ControllerTimeout,
    JointCommand,
    JointState,
    KilohertzError,
    LogError,
    Model,
    Module,
    NoReplyError,
    Parameter,
    Parameters,
    Reply,
    RobotError,
    StartError,
    State,
    Teleop,
    __version__,
)
from .connection import Connection, Found, Servo
from .controller import Doing, Mode, parameters
from .live import Live, LiveParameters, Targets
from .log import Log, Record, open_log
from .replays import replay
from .results import Distribution, Result, ResultError, Table, open_result
from .robot import Robot
from .summary import Summary
from .templates import template, templates

if TYPE_CHECKING:
    from .env import Env as Env
    from .vector import VecEnv as VecEnv

__all__ = [
    "BusError",
    "ClosedError",
    "Command",
    "CommandError",
    "ConfigError",
    "Connection",
    "ControllerTimeout",
    "Distribution",
    "Doing",
    "Found",
    "JointCommand",
    "JointState",
    "KilohertzError",
    "Live",
    "LiveParameters",
    "Log",
    "LogError",
    "Mode",
    "Model",
    "Module",
    "NoReplyError",
    "Parameter",
    "Parameters",
    "Record",
    "Reply",
    "Result",
    "ResultError",
    "Robot",
    "RobotError",
    "Servo",
    "StartError",
    "State",
    "Summary",
    "Table",
    "Targets",
    "Teleop",
    "__version__",
    "open_log",
    "open_result",
    "parameters",
    "replay",
    "template",
    "templates",
]


def __getattr__(name: str) -> Any:
    # Gymnasium takes longer to import than all of this package, and need not be there.
    if name in ("Env", "VecEnv"):
        # Says what to install, if it is not there.
        from .env import Env

        if name == "Env":
            return Env
        from .vector import VecEnv

        return VecEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
