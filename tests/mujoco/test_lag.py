"""How old what the loop sees is: measured on a pendulum whose motion is known, against the prediction of `khz budget`."""

import csv
import json
import pathlib
import subprocess
from collections.abc import Callable

import mujoco
import pytest
from pendulum import MODEL

Run = Callable[..., "subprocess.CompletedProcess[str]"]

STEP_US = 250.0
TICK_US = 1000.0

PENDULUM = MODEL.replace('qpos="0.3"', 'qpos="1.0"')

ROBOT = """
[robot]
name = "pendulum"
[bus.main]
link = "emulated"
{wire}
[[servo]]
name = "joint"
bus = "main"
id = 1
device = {{ kp = 0.0, kd = 0.0 }}
query = {{ position = "float", velocity = "float" }}
[body]
kind = "mujoco"
model = "pendulum.xml"
keyframe = "raised"
"""

WIRES = {
    "can_fd": 'wire = "can_fd"',
    "can_fd_slow_servo": 'wire = "can_fd"\nturnaround_us = 300',
    "can_fd_slow_data": 'wire = "can_fd"\ndata_bit_rate = 2_000_000',
    "rs485": 'wire = "rs485"\nbaud = 3_000_000',
}


def rows(path: pathlib.Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def swing(seconds: float) -> list[float]:
    """The angle of the free pendulum after each step."""
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    angles = [float(data.qpos[0])]
    while data.time < seconds:
        mujoco.mj_step(model, data)
        angles.append(float(data.qpos[0]))
    return angles


def lags_us(folder: pathlib.Path) -> list[float]:
    """From when a position was measured to when the loop had it, of the ticks in which the pendulum is fast. Virtual time begins with the
    simulation, before the servo is made ready."""
    angles = swing(1.1)
    ticks = rows(folder / "tick.csv")
    lags = []
    for tick, servo in zip(ticks, rows(folder / "servo.csv"), strict=True):
        if tick["phase"] != "active" or abs(float(servo["joint.velocity"])) < 1.0:
            continue
        took_ns = sum(float(tick[key]) for key in ("encode_ns", "send_ns", "collect_ns"))
        had_us = (float(tick["started_ns"]) + took_ns) / 1e3
        seen, last = float(servo["joint.position"]), int(had_us / STEP_US)
        # A step moves it by 0.25 mrad and more, a hundred times what the register resolves.
        step = min(range(max(0, last - 12), last + 1), key=lambda step: abs(angles[step] - seen))
        assert abs(angles[step] - seen) < 1e-5, (tick["number"], angles[step], seen)
        lags.append(had_us - step * STEP_US)
    return lags


@pytest.mark.parametrize("wire", WIRES)
def test_what_the_loop_sees_is_as_old_as_the_wire_model_says(
    run_khz: Run, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], wire: str
) -> None:
    (tmp_path / "pendulum.xml").write_text(PENDULUM)
    (tmp_path / "robot.toml").write_text(ROBOT.format(wire=WIRES[wire]))
    log = str(tmp_path / "run.tlog")
    done = run_khz("run", str(tmp_path / "robot.toml"), "--virtual", "--duration", "1s", "--log", log)
    assert done.returncode == 0, done.stdout + done.stderr
    run_khz("log", "export", log, "--format", "csv", "--output", str(tmp_path / "out"))
    budget = json.loads(run_khz("budget", str(tmp_path / "robot.toml"), "--json").stdout)
    parts = {part["kind"]: part["ns"] / 1e3 for part in budget["prediction"]["critical"]}
    on_the_wire = parts["command"] + parts["turnaround"] + parts["reply"]
    # The servo replies what it measured when its last control period began; a tick begins anywhere within one.
    begins = float(rows(tmp_path / "out/tick.csv")[0]["started_ns"]) / 1e3 % STEP_US
    measured = (int((begins + parts["command"]) / STEP_US) - 1) * STEP_US - begins
    expected = on_the_wire - measured
    lags = lags_us(tmp_path / "out")
    middle = sorted(lags)[len(lags) // 2]
    with capsys.disabled():
        print(f"\n{wire}: wire {on_the_wire:.0f} µs, expected lag {expected:.0f} µs, measured {middle:.0f} µs "
              f"({min(lags):.0f} to {max(lags):.0f})")
    # Stuff bits depend on what is sent: the prediction is of a robot at rest at 0.
    assert len(lags) > 200 and all(abs(lag - expected) < 0.03 * on_the_wire for lag in lags)
    assert max(lags) < TICK_US
