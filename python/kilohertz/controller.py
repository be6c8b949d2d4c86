"""What a controller is, and what it commands and sees."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar

from ._native import Command, Module, Parameter, State


class Mode(enum.IntEnum):
    """What a servo is commanded to do; the values of `Command.mode`."""

    STOP = 0
    """Output off. Also clears a fault."""
    DAMP = 1
    """Zero velocity: damping without holding a position."""
    POSITION = 2
    """Follow a position and velocity, adding a torque."""
    VELOCITY = 3
    """Follow a velocity from wherever the joint is, adding a torque; `position` and `kp_scale` do not matter."""


class Doing(enum.IntEnum):
    """What a servo is doing; the values of `State.doing`."""

    OFF = 0
    """Its output is off, and nothing is wrong."""
    STARTING = 1
    """On its way from off to on."""
    FOLLOWING = 2
    """It follows its commands."""
    DAMPING = 3
    """It damps."""
    TIMED_OUT = 4
    """It has received no command for too long and acts on its own, as its watchdog is set to."""
    FAULTED = 5
    """It has switched itself off; `State.fault` has the reason."""
    OTHER = 6
    """Its output is on for something no loop commands, such as a calibration."""


class Controller(Protocol):
    """A controller with a state of its own. `start(state)`, if there is one, is called once before.

    With an attribute `decision_hz` it is asked so often only, on a thread of its own, and followed `delay_ticks` after the tick whose state
    it sees; `max_late` late decisions in a row (2) bring the robot down."""

    def update(self, state: State, command: Command) -> object:
        """Called every tick: looks at the state, sets the command."""


AnyModule: TypeAlias = Controller | Callable[[State, Command], object] | Module

AnyController: TypeAlias = AnyModule | Mapping[str, AnyModule]

_Function = TypeVar("_Function", bound=Callable[..., object])


def parameters(**declared: Parameter) -> Callable[[_Function], _Function]:
    """Declares parameters of a controller that is a function; it reads them from `state.parameters`. One that is an object has
    a dictionary as its attribute `parameters` instead.

    >>> @parameters(stiffness=Parameter(0.5, min=0.0, max=1.0, text="Share of the position gain"))
    ... def controller(state, command):
    ...     command.kp_scale = state.parameters["stiffness"]
    """

    def declare(function: _Function) -> _Function:
        function.parameters = declared  # type: ignore[attr-defined]
        return function

    return declare
