"""A MuJoCo model under emulated servos against MuJoCo's own Python package."""

import math
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import gymnasium
import mujoco
import pytest
from pendulum import MODEL as PENDULUM

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
ASSETS = pathlib.Path(gymnasium.__file__).parent / "envs/mujoco/assets"
QUADRUPED = ROOT / "robots/models/quadruped.xml"
STEPS = 5000
# The first test builds a program.
pytestmark = pytest.mark.timeout(900)

Drive = Callable[[pathlib.Path, pathlib.Path, int, float, list[str]], list[float]]
Run = Callable[..., "subprocess.CompletedProcess[str]"]

ROBOT = """
[robot]
name = "pendulum"
[bus.main]
link = "emulated"
wire = "instant"
[[servo]]
name = "joint"
bus = "main"
id = 1
# No gains, no torque.
device = {{ kp = 0.0, kd = 0.0 }}
query = {{ position = "float", velocity = "float" }}
[body]
kind = "mujoco"
model = "pendulum.xml"
keyframe = "raised"
{more}
"""


@pytest.mark.parametrize("model", ["ant", "half_cheetah", "hopper", "humanoid", "walker2d", "quadruped"])
def test_a_model_moves_as_with_its_own_package(
    library: pathlib.Path, drive: Drive, model: str
) -> None:
    path = QUADRUPED if model == "quadruped" else ASSETS / f"{model}.xml"
    spec = mujoco.MjModel.from_xml_path(str(path))
    joints = [spec.joint(number).name for number in range(spec.njnt) if spec.jnt_type[number] == 3]
    ours = drive(library, path, STEPS, 1.0, joints)
    environment = os.environ | {"PYTHONPATH": str(library.parent)}
    command = [sys.executable, str(HERE / "alone.py"), str(path), str(STEPS), "1.0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ours == [float(word) for word in done.stdout.strip("[]\n").split(",")]


def pendulum(folder: pathlib.Path, more: str = "") -> str:
    (folder / "pendulum.xml").write_text(PENDULUM)
    (folder / "robot.toml").write_text(ROBOT.format(more=more))
    return str(folder / "robot.toml")


def test_without_the_library_the_message_says_what_to_do(
    run_khz: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KHZ_MUJOCO")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    # Where there is no Python.
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run_khz("run", pendulum(tmp_path), "--virtual", "--duration", "1s")
    assert done.returncode == 2 and "pip install mujoco" in done.stderr
    monkeypatch.setenv("KHZ_MUJOCO", str(tmp_path / "nowhere"))
    done = run_khz("run", pendulum(tmp_path), "--virtual", "--duration", "1s")
    assert done.returncode == 2 and "KHZ_MUJOCO" in done.stderr and "nowhere" in done.stderr


def test_a_model_that_does_not_fit_is_refused_with_what_is_wrong(
    run_khz: Run, tmp_path: pathlib.Path
) -> None:
    def refused(more: str, model: str = PENDULUM) -> str:
        path = pendulum(tmp_path, more)
        (tmp_path / "pendulum.xml").write_text(model)
        done = run_khz("run", path, "--virtual", "--duration", "1s")
        assert done.returncode == 2, done.stdout
        return done.stderr

    assert "no joint `joint`; its joints are `hinge`" in refused("", PENDULUM.replace("joint name=\"joint\"", "joint name=\"hinge\""))
    assert "axiz" in refused("", PENDULUM.replace("axis", "axiz"))
    assert "no keyframe `raised`" in refused("", PENDULUM.replace("raised", "lowered"))
    unnamed = PENDULUM.replace("joint name=\"joint\"", "joint")
    assert "its joints are `` and 1 without a name, which no servo can drive" in refused("", unnamed)
    assert "its timestep is 0 s" in refused("", PENDULUM.replace("0.00025", "0"))
    floating = PENDULUM.replace('<body name="arm">', '<body><freejoint name="trunk"/><geom size="0.1"/><body name="arm">')
    floating = floating.replace("</worldbody>", "</body></worldbody>").replace('qpos="0.3"', 'qpos="0 0 1 1 0 0 0 0.3"')
    assert "no site `imu`" in refused('[imu]\nlink = "emulated"', floating)
    (tmp_path / "pendulum.xml").unlink()
    done = run_khz("run", str(tmp_path / "robot.toml"), "--virtual", "--duration", "1s")
    assert done.returncode == 2


def positions(
    run_khz: Run, folder: pathlib.Path, seconds: int, model: str = PENDULUM, more: str = ""
) -> list[tuple[float, float, float]]:
    """Time, angle and speed of the pendulum, whose servo has no gains."""
    path = pendulum(folder, more)
    (folder / "pendulum.xml").write_text(model)
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "run.tlog").unlink(missing_ok=True)
    done = run_khz("run", path, "--virtual", "--duration", f"{seconds}s", "--log", str(folder / "run.tlog"))
    assert done.returncode == 0, done.stderr
    run_khz("log", "export", str(folder / "run.tlog"), "--format", "csv", "--output", str(folder / "out"))
    rows = (folder / "out/servo.csv").read_text().splitlines()
    names = rows[0].split(",")
    at = [names.index(name) for name in ("time", "joint.position", "joint.velocity")]
    return [tuple(float(row.split(",")[column]) for column in at) for row in rows[1:]]  # type: ignore[misc]


def test_a_pendulum_swings_with_its_period_and_keeps_its_energy(
    run_khz: Run, tmp_path: pathlib.Path
) -> None:
    samples = [(time, angle, speed) for time, angle, speed in positions(run_khz, tmp_path, 15)]
    falling = [
        now - angle / (angle - before) * 1e-3
        for (_, before, _), (now, angle, _) in zip(samples, samples[1:], strict=False)
        if before > 0 >= angle
    ]
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    inertia, arm = float(data.M[0]) if hasattr(data, "M") else float(data.qM[0]), 0.15
    small = 2 * math.pi * math.sqrt(inertia / (0.5 * 9.81 * arm))
    # The period of a pendulum that starts at 0.3 rad, to the fourth order of the angle.
    period = small * (1 + 0.3**2 / 16 + 11 * 0.3**4 / 3072)
    measured = (falling[-1] - falling[0]) / (len(falling) - 1)
    assert len(falling) > 10 and abs(measured / period - 1) < 1e-4, (measured, period)

    def energy(angle: float, speed: float) -> float:
        return 0.5 * inertia * speed**2 + 0.5 * 9.81 * arm * (1 - math.cos(angle))

    energies = [energy(angle, speed) for _, angle, speed in samples]
    assert max(energies) / min(energies) - 1 < 0.01


@pytest.mark.parametrize("more", ["", "friction = 0.5"])
@pytest.mark.parametrize("step", ["0.00025", "0.001"])
def test_the_actuators_of_a_model_are_off(
    run_khz: Run, tmp_path: pathlib.Path, more: str, step: str
) -> None:
    """A `position` actuator pulls to 0 with a control of 0, which is all that it would get."""
    model = PENDULUM.replace("0.00025", step)
    pulled = model.replace("</mujoco>", '<actuator><position joint="joint" kp="50"/></actuator></mujoco>')
    alone, beside = [
        [(angle, speed) for _, angle, speed in positions(run_khz, tmp_path, 1, made, more)] for made in (model, pulled)
    ]
    assert len(alone) > 900 and beside == alone


def test_joints_without_a_name_are_no_reason_to_refuse_a_model(run_khz: Run, tmp_path: pathlib.Path) -> None:
    """Models of makers have an unnamed `<freejoint/>`; beside one that no servo drives, the pendulum is the same."""
    alone = positions(run_khz, tmp_path, 1)
    block = '<body pos="9 0 0"><freejoint/><geom size="0.1" contype="0" conaffinity="0"/></body><body name="arm">'
    # Its positions are before those of the pendulum.
    beside = PENDULUM.replace('<body name="arm">', block).replace('qpos="0.3"', 'qpos="9 0 0 1 0 0 0 0.3"')
    same = positions(run_khz, tmp_path, 1, beside)
    assert max(abs(ours - theirs) for (_, ours, _), (_, theirs, _) in zip(same, alone, strict=True)) < 1e-6


def test_the_quadruped_stands_and_squats(run_khz: Run, tmp_path: pathlib.Path) -> None:
    robot = str(ROOT / "robots/quadruped_mujoco.toml")
    done = run_khz("run", robot, "--virtual", "--duration", "6s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finished" in done.stdout
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


def test_the_quadruped_comes_down_gently(run_khz: Run) -> None:
    done = run_khz("drill", "fall", str(ROOT / "robots/quadruped_mujoco.toml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_says_whether_the_body_can_be_simulated(
    run_khz: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_khz("check", pendulum(tmp_path))
    assert done.returncode == 0 and f"MuJoCo {mujoco.__version__}, " in done.stdout, done.stdout
    assert "[body]" not in done.stderr
    monkeypatch.setenv("KHZ_MUJOCO", str(tmp_path / "nowhere"))
    done = run_khz("check", str(tmp_path / "robot.toml"))
    assert done.returncode == 0 and "nowhere" in done.stderr and "cannot be simulated here" in done.stdout


def test_a_model_that_diverges_ends_the_run_with_the_reason(run_khz: Run, tmp_path: pathlib.Path) -> None:
    path = pendulum(tmp_path)
    # Too stiff for the step: it gains energy until it is no number.
    explosive = PENDULUM.replace('axis="0 1 0"', 'axis="0 1 0" stiffness="1e7"')
    (tmp_path / "pendulum.xml").write_text(explosive)
    done = run_khz("run", path, "--virtual", "--duration", "5s", "--log", str(tmp_path / "run.tlog"))
    assert done.returncode not in (0, 2), done.stdout + done.stderr
    assert "the simulated body moves no more" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_servo_has_measured_when_it_is_made(run_khz: Run, tmp_path: pathlib.Path) -> None:
    run_khz("run", pendulum(tmp_path), "--virtual", "--duration", "1s", "--log", str(tmp_path / "run.tlog"))
    run_khz("log", "export", str(tmp_path / "run.tlog"), "--format", "csv", "--output", str(tmp_path / "out"))
    rows = (tmp_path / "out/servo.csv").read_text().splitlines()
    first = float(rows[1].split(",")[rows[0].split(",").index("joint.position")])
    # It falls while the servo is made ready.
    assert abs(first - 0.3) < 1e-4
