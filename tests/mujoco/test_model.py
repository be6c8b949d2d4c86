"""Models that `khz new` writes of robot files, robot files that it makes of models, and recorded commands on the robot of a model."""

import csv
import json
import math
import pathlib
import shutil
import subprocess
from collections.abc import Callable

import mujoco
import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROBOTS = sorted(path for path in (ROOT / "robots").glob("*.toml") if path.stem != "quadruped_mujoco")

LEGS = ("front_left", "front_right", "rear_left", "rear_right")

PENDULUM = """
[robot]
name = "pendulum"
[bus.main]
link = "emulated"
wire = "instant"
[[servo]]
name = "joint"
bus = "main"
id = 1
device = {{ kp = 0.0, kd = 0.0 }}
query = {{ position = "float", velocity = "float" }}
joint = {{ inertia = 0.02, viscous = 0.005, coulomb = 0.0, gravity = 1.5, gravity_at = 0.2, start = 1.0 }}
{body}
"""


def write_model(run_khz: Run, robot: pathlib.Path, model: pathlib.Path) -> None:
    done = run_khz("new", "--model-of", str(robot), str(model))
    assert done.returncode == 0, done.stderr
    assert 'kind = "mujoco"' in done.stdout


@pytest.mark.parametrize("robot", ROBOTS, ids=lambda robot: robot.stem)
def test_mujoco_loads_what_is_written_for_every_robot(
    run_khz: Run, tmp_path: pathlib.Path, robot: pathlib.Path
) -> None:
    write_model(run_khz, robot, tmp_path / "robot.xml")
    servos = json.loads(run_khz("check", str(robot), "--json").stdout)["values"]["servo"]
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    names = [model.joint(number).name for number in range(model.njnt)]
    assert [name for name in names if name != "trunk"] == [servo["name"] for servo in servos]
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("start").id)
    for servo in servos:
        assert math.isclose(data.joint(servo["name"]).qpos[0], servo["joint"]["start"], abs_tol=1e-9)


def test_the_quadruped_that_is_written_stands_and_squats(run_khz: Run, tmp_path: pathlib.Path) -> None:
    robot = ROOT / "robots/quadruped.toml"
    write_model(run_khz, robot, tmp_path / "model.xml")
    assert abs(sum(mujoco.MjModel.from_xml_path(str(tmp_path / "model.xml")).body_mass) - 10.0) < 1e-9
    lines = robot.read_text().splitlines()
    start = lines.index("[body]")
    end = next((line for line in range(start + 1, len(lines)) if lines[line].startswith("[")), len(lines))
    body = ["[body]", 'kind = "mujoco"', 'model = "model.xml"', 'keyframe = "start"']
    (tmp_path / "robot.toml").write_text("\n".join([*lines[:start], *body, *lines[end:]]))
    done = run_khz("run", str(tmp_path / "robot.toml"), "--virtual", "--duration", "6s", "--no-report")
    assert done.returncode == 0 and "finished" in done.stdout, done.stdout + done.stderr


ARM = """
<mujoco model="arm">
  <compiler angle="degree" autolimits="true"/>
  <default><default class="joint"><position kp="40" kv="2" forcerange="-15 15"/><joint range="-90 90"/></default></default>
  <worldbody>
    <body childclass="joint">
      <joint name="shoulder joint" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.01" mass="0.5" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><position class="joint" name="shoulder" joint="shoulder joint"/></actuator>
  <keyframe><key name="raised" qpos="0.5"/></keyframe>
</mujoco>
"""


def test_a_robot_file_is_made_of_a_model_and_runs(run_khz: Run, tmp_path: pathlib.Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/arm.xml").write_text(ARM)
    done = run_khz("new", "--mjcf", "models/arm.xml")
    assert done.returncode == 0, done.stderr
    checked = run_khz("check", "robot.toml")
    assert checked.returncode == 0 and checked.stderr == "", checked.stderr
    values = json.loads(run_khz("check", "robot.toml", "--json").stdout)["values"]
    (servo,) = values["servo"]
    assert (servo["name"], servo["model_joint"]) == ("shoulder_joint", "shoulder joint")
    assert (servo["device"]["kp"], servo["device"]["kd"], servo["limits"]["torque"]) == (40.0, 2.0, 15.0)
    low, high = servo["limits"]["position"]
    assert abs(low + math.pi / 2) < 1e-4 and abs(high - math.pi / 2) < 1e-4
    assert (values["body"]["model"], values["body"]["keyframe"]) == ("models/arm.xml", "raised")
    done = run_khz("run", "robot.toml", "--virtual", "--duration", "1s", "--no-report")
    assert done.returncode == 0 and "finished" in done.stdout, done.stdout + done.stderr


TRAINER = """
joint_ids_map: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
step_dt: 0.02
stiffness: [31.8]
damping: [1.43]
default_joint_pos: [0.0, 0.75, -1.5, 0.0, 0.75, -1.5, 0.0, 0.75, -1.5, 0.0, 0.75, -1.5]
actions:
  JointPositionAction: {clip: null, scale: [0.25], offset: [0.0, 0.75, -1.5, 0.0, 0.75, -1.5, 0.0, 0.75, -1.5, 0.0, 0.75, -1.5]}
observations:
  projected_gravity: {clip: null, scale: null, history_length: 1}
  base_ang_vel: {clip: null, scale: [0.25], history_length: 1}
  gait_phase: {params: {period: 0.4}, clip: null, scale: null, history_length: 1}
"""


def test_a_policy_moves_the_robot_of_its_model_as_it_was_written(run_khz: Run, tmp_path: pathlib.Path) -> None:
    """Nothing is edited. Limits of velocity that the model does not have cut nearly every decision of public policies."""
    model = (ROOT / "robots/models/quadruped.xml").read_text()
    joints = [f"{leg}_{joint}" for leg in LEGS for joint in ("hip", "thigh", "knee")]
    motors = "".join(f'<motor joint="{joint}" ctrlrange="-12 12" ctrllimited="true"/>' for joint in joints)
    (tmp_path / "dog.xml").write_text(model.replace("</mujoco>", f"<actuator>{motors}</actuator></mujoco>"))
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy/deploy.yaml").write_text(TRAINER)
    shutil.copy(ROOT / "robots/models/quadruped_policy.onnx", tmp_path / "policy")
    done = run_khz("new", "--mjcf", "dog.xml", "--policy", "policy", "dog.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_khz("run", "dog.toml", "--virtual", "--duration", "4s", "--no-report", "--require", "cut_decisions=0")
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line)["value"] for line in run_khz("log", "cat", "run.tlog", "-r", "event").stdout.splitlines()]
    assert [event["cause"] for event in events if event["from"] == "active"] == ["finished"], events
    assert not any(event["trouble"] for event in events), events


def angles(run_khz: Run, folder: pathlib.Path, body: str) -> list[float]:
    (folder / "robot.toml").write_text(PENDULUM.format(body=body))
    log, out = str(folder / "run.tlog"), folder / "out"
    run_khz("run", str(folder / "robot.toml"), "--virtual", "--duration", "1s", "--log", log)
    run_khz("log", "export", log, "--format", "csv", "--output", str(out))
    return [float(row["joint.position"]) for row in csv.DictReader((out / "servo.csv").read_text().splitlines())]


def test_an_arm_that_is_written_swings_as_the_joint_it_was_written_for(
    run_khz: Run, tmp_path: pathlib.Path
) -> None:
    for name in ("own", "model"):
        (tmp_path / name).mkdir()
    own = angles(run_khz, tmp_path / "own", "")
    write_model(run_khz, tmp_path / "own/robot.toml", tmp_path / "model/model.xml")
    body = '[body]\nkind = "mujoco"\nmodel = "model.xml"\nkeyframe = "start"'
    model = angles(run_khz, tmp_path / "model", body)
    assert max(own[:1000]) - min(own[:1000]) > 1.0
    # Two integrators of the same joint.
    assert max(abs(one - two) for one, two in zip(own[:1000], model[:1000], strict=True)) < 2e-3


def test_recorded_commands_move_the_model_as_recorded(run_khz: Run, tmp_path: pathlib.Path) -> None:
    robot, log = str(ROOT / "robots/quadruped_mujoco.toml"), str(tmp_path / "run.tlog")
    run_khz("run", robot, "--virtual", "--duration", "3s", "--log", log, "--no-report")
    done = run_khz("replay", log, "--body", "--robot", robot, "--json")
    assert done.returncode == 0, done.stderr
    joints = json.loads(done.stdout)["joints"]
    assert len(joints) == 12 and all(joint["position"]["rms"] < 1e-6 for joint in joints), joints
    # The log has the file's text, but not where its model is.
    done = run_khz("replay", log, "--body")
    assert done.returncode == 2 and "models/quadruped.xml" in done.stderr


def test_a_model_too_large_to_be_drawn_is_reported_by_check_and_run(run_khz: Run, tmp_path: pathlib.Path) -> None:
    write_model(run_khz, ROOT / "robots/pan_tilt.toml", tmp_path / "model.xml")
    model = (tmp_path / "model.xml").read_text()
    boxes = "".join(f'<geom type="box" size="0.01 0.01 0.01" pos="0 0 {number / 100}" mass="0"/>' for number in range(200))
    at = model.index("</body>")
    (tmp_path / "model.xml").write_text(model[:at] + boxes + model[at:])
    body = f'[body]\nkind = "mujoco"\nmodel = "{tmp_path / "model.xml"}"\n'
    (tmp_path / "robot.toml").write_text((ROOT / "robots/pan_tilt.toml").read_text() + body)
    checked = run_khz("check", "robot.toml")
    ran = run_khz("run", "robot.toml", "--virtual", "--duration", "50ms", "--no-report")
    for done in (checked, ran):
        assert done.stderr.count("do not draw this robot") == 1, done.stderr
