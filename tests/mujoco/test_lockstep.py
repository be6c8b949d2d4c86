"""The whole machine over the wire, step by step, against a few lines of Python with MuJoCo alone."""

import csv
import math
import pathlib
import subprocess
from collections.abc import Callable

import mujoco
import pytest
from pendulum import MODEL

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Row = dict[str, str]

KP, KD = 20.0, 0.6
#: Control periods of the emulated servo in a tick.
PERIODS = 4
#: The first tick that is compared: the robot is armed by then.
FROM, UNTIL = 100, 5100

PENDULUM = MODEL.replace('axis="0 1 0"', 'axis="0 1 0" armature="0.01"')

ROBOT = f"""
[robot]
name = "pendulum"
[loop]
rate_hz = 1000
[bus.main]
link = "emulated"
wire = "instant"
[[servo]]
name = "joint"
bus = "main"
id = 1
device = {{ kp = {KP}, kd = {KD} }}
query = {{ position = "float", velocity = "float", torque = "float" }}
command = {{ position = "float", velocity = "float" }}
[controller]
name = "sine"
amplitude = 0.3
from_hz = 0.5
to_hz = 1.5
sweep_s = 10.0
[body]
kind = "mujoco"
model = "pendulum.xml"
keyframe = "raised"
"""


@pytest.fixture
def recorded(run_khz: Run, tmp_path: pathlib.Path) -> tuple[list[Row], list[Row]]:
    """What the servo replied and what it was commanded, tick by tick."""
    (tmp_path / "pendulum.xml").write_text(PENDULUM)
    (tmp_path / "robot.toml").write_text(ROBOT)
    log = str(tmp_path / "run.tlog")
    done = run_khz("run", str(tmp_path / "robot.toml"), "--virtual", "--duration", "5.3s", "--log", log)
    assert done.returncode == 0, done.stdout + done.stderr
    run_khz("log", "export", log, "--format", "csv", "--output", str(tmp_path / "out"))

    def rows(name: str) -> list[Row]:
        return list(csv.DictReader((tmp_path / "out" / name).read_text().splitlines()))

    return rows("servo.csv"), rows("command.csv")


def test_the_machine_over_an_ideal_wire_moves_as_mujoco_alone(recorded: tuple[list[Row], list[Row]]) -> None:
    servo, commands = recorded
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    step = model.opt.timestep
    decay = KD * step / float(data.M[0])
    # Constant over a step, it takes from the velocity of a free joint what KD takes from it.
    damping = KD * (1 - math.exp(-decay)) / decay
    data.qpos[0], data.qvel[0] = (float(servo[FROM][f"joint.{key}"]) for key in ("position", "velocity"))
    worst = 0.0
    for tick in range(FROM, UNTIL):
        worst = max(worst, abs(float(servo[tick]["joint.position"]) - data.qpos[0]))
        for period in range(PERIODS):
            # A servo replies what it measured when its last control period began. That one was still under the command
            # before; its control position had moved on by the commanded velocity in each period.
            sent, age = (commands[tick - 1], period) if period else (commands[tick - 2], PERIODS)
            position, velocity = (float(sent[f"joint.{key}"]) for key in ("position", "velocity"))
            error = position + velocity * step * age - data.qpos[0]
            data.qfrc_applied[0] = KP * error + KD * velocity - damping * data.qvel[0]
            mujoco.mj_step(model, data)
    assert abs(data.qpos[0]) < 1 and worst <= 1e-5, worst
