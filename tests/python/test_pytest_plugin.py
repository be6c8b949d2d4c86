"""The plug-in that pytest imports in every run of every user who has `kilohertz` installed."""

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kilohertz import Connection, Robot


def test_it_imports_the_package_only_for_who_uses_it() -> None:
    """It imported all of it, with NumPy: half a second."""
    program = "import pytest, sys; import kilohertz_pytest; print(*{'kilohertz', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_its_fixtures(
    emulated_robot: "Callable[..., Robot]", emulated_connection: "Callable[..., Connection]"
) -> None:
    assert emulated_robot(servos=2, imu=True)
    assert len(emulated_connection(servos=2).scan()) == 2
