"""The type stubs say what the module really has, and the package is as strictly typed as users may want it."""

import pathlib
import subprocess
import sys


def mypy(folder: pathlib.Path, *words: str) -> None:
    # From a folder without a `kilohertz`, so that the installed package is looked at.
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_match_the_native_module(tmp_path: pathlib.Path) -> None:
    mypy(tmp_path, "mypy.stubtest", "kilohertz._native")


def test_the_package_is_strictly_typed(tmp_path: pathlib.Path) -> None:
    mypy(tmp_path, "mypy", "--strict", "--package", "kilohertz")
