"""Robots of MuJoCo Menagerie, or of any folder of such folders, for those who have them: `KHZ_MENAGERIE=FOLDER cargo xtask test tests/mujoco/test_menagerie.py`.

Models and their licences are their owners', and too large to come with this repository.
"""

import json
import os
import pathlib
import subprocess
from collections.abc import Callable

import mujoco
import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

FOLDER = os.environ.get("KHZ_MENAGERIE")
MODELS = sorted(pathlib.Path(FOLDER).glob("*/*.xml")) if FOLDER else []

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="the models are their owner's: set KHZ_MENAGERIE to the folder with them"),
    pytest.mark.timeout(1800),
]


def driven(model: mujoco.MjModel) -> "set[str]":
    """The hinges that an actuator turns by itself."""
    joints = [model.actuator_trnid[at, 0] for at in range(model.nu) if model.actuator_trntype[at] == mujoco.mjtTrn.mjTRN_JOINT]
    return {model.joint(joint).name for joint in joints if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE}


def test_the_folder_has_models() -> None:
    assert MODELS, f"no FOLDER/*/*.xml in {FOLDER}"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_robot_file_is_made_of_it_and_runs(run_khz: Run, path: pathlib.Path) -> None:
    try:
        hinges = driven(mujoco.MjModel.from_xml_path(str(path)))
    except ValueError as error:
        pytest.skip(f"MuJoCo does not load it by itself: {error}")
    made = run_khz("new", "--mjcf", str(path))
    assert made.returncode in (0, 2) and "panicked" not in made.stderr, made.stderr
    if made.returncode:
        # A scene of things, or joints of kinds that no servo turns: the message names which.
        assert not hinges or "joint" in made.stderr, made.stderr
        return
    servos = json.loads(run_khz("check", "robot.toml", "--json").stdout)["values"]["servo"]
    assert {servo.get("model_joint") or servo["name"] for servo in servos} <= hinges
    ran = run_khz("run", "robot.toml", "--virtual", "--duration", "1s", "--no-report", "--json", timeout=600)
    # One that falls, as a robot without a controller may, comes down with a reason.
    assert ran.returncode in (0, 1) and "panicked" not in ran.stderr, ran.stderr
    assert json.loads(ran.stdout)["format"]
