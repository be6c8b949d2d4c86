"""The plug-in's types, against the stand-in for LeRobot, which has its signatures."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

HERE = pathlib.Path(__file__).resolve().parent


def test_the_types_are_sound(tmp_path: pathlib.Path) -> None:
    packages = ["--package", "lerobot_robot_kilohertz", "--package", "lerobot_teleoperator_kilohertz"]
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *packages]
    environment = os.environ | {"MYPYPATH": str(HERE / "stubs")}
    done = subprocess.run(words, cwd=HERE.parent.parent / "python/lerobot", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
