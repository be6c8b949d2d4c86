"""Fixtures for tests that need a robot but no hardware; pytest finds them once `kilohertz` is installed.

A package of its own: pytest imports it in every run, and `kilohertz` with NumPy takes half a second, which only those pay who use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kilohertz import Connection, Robot


@pytest.fixture
def emulated_robot() -> Callable[..., Robot]:
    """Makes emulated robots: `emulated_robot(servos=3, imu=True)`; see `Robot.emulated`."""
    from kilohertz import Robot

    return Robot.emulated


@pytest.fixture
def emulated_connection() -> Iterator[Callable[..., Connection]]:
    """Opens emulated robots without a loop: `emulated_connection(servos=3)`. Closed at the end of the test."""
    from kilohertz import Robot

    with ExitStack() as stack:

        def connect(servos: int = 1, **options: Any) -> Connection:
            return stack.enter_context(Robot.emulated(servos, **options).connect())

        yield connect
