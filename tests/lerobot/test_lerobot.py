"""LeRobot's own commands, unmodified, one at a time, with an emulated arm: teleoperate, record, replay, and what happens when LeRobot is stopped or
killed in mid-motion. Judged from the log, and by LeRobot's own loader.

LeRobot is 8 GB and each command takes half a minute to start, so this runs on demand, in an environment that has it: `cargo xtask nightly
lerobot`.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import kilohertz
import numpy as np
import pytest
from conftest import ARM, Running, until

from robots import lenient

pytestmark = [
    pytest.mark.skipif("KHZ_SLOW" not in os.environ, reason="LeRobot takes minutes: `cargo xtask nightly lerobot`"),
    pytest.mark.timeout(900),
]

RATE = 200
FPS = 30
# A hand swings it, at most 1.2 rad/s fast.
LEADER = lenient(ARM).replace('name = "arm"', 'name = "leader"').replace("viscous = 0.1", "viscous = 0.1, hand_rad = 0.4, hand_hz = 0.4")
BIN = pathlib.Path(sys.executable).parent


@pytest.fixture
def leader(run) -> Running:
    """A leader arm, limp for LeRobot, that a hand swings."""
    running: Running = run(LEADER, "leader")
    return running


class LeRobot:
    """One of its commands."""

    def __init__(self, name: str, folder: pathlib.Path, *words: str) -> None:
        environment = os.environ | {"HF_LEROBOT_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1"}
        environment.pop("PYTHONPATH", None)
        self._output = folder / f"{name}.txt"
        with self._output.open("w") as output:
            self.process = subprocess.Popen([BIN / f"lerobot-{name}", *words], cwd=folder, env=environment, stdout=output, stderr=output)

    def output(self) -> str:
        return self._output.read_text()

    def end(self) -> None:
        assert self.process.wait(600) == 0, self.output()


def robot(*more: str) -> list[str]:
    return ["--robot.type=kilohertz", "--robot.id=arm", "--robot.wait_s=60", *more]


def teleop(leader: Running) -> list[str]:
    return ["--teleop.type=kilohertz", "--teleop.id=leader", f"--teleop.at={leader.at}"]


def started(file: pathlib.Path, khz: str, log: pathlib.Path) -> list[str]:
    return robot(f"--robot.file={file}", f"--robot.khz={khz}", f"--robot.log={log}")


def check_limits(log: pathlib.Path, least: float) -> None:
    """Position, velocity and acceleration are within those of the robot file, and it was moved so far at least."""
    recorded = kilohertz.Log(log)
    ticks = recorded["tick"]["number"]
    follow = np.diff(ticks) == 1
    dt, digit = 1 / RATE, 4 * np.finfo(np.float32).eps
    for joint in ("shoulder", "elbow"):
        command = recorded["command"][f"{joint}.position"].astype(float)
        known = command[np.isfinite(command)]
        assert np.abs(known).max() <= 1.5 and np.ptp(known) > least
        velocity = np.diff(command) / dt
        assert np.nanmax(np.abs(velocity[follow])) <= 3.0 * (1 + 1e-6) + digit / dt
        acceleration = np.diff(velocity) / dt
        assert np.nanmax(np.abs(acceleration[follow[1:] & follow[:-1]])) <= 30 * (1 + 1e-6) + digit / dt**2


def test_teleoperate(khz, file, tmp_path, leader):
    log = tmp_path / "teleoperate.tlog"
    LeRobot("teleoperate", tmp_path, *started(file, khz, log), *teleop(leader), "--fps=60", "--teleop_time_s=4").end()
    check_limits(log, least=0.4)
    stages = kilohertz.Log(log)["stage"]["stage"]
    assert (stages == 1).sum() > 1.0 * RATE, "a second of the four was on time"


def test_record_two_episodes_with_a_pause_and_replay_one(khz, file, tmp_path, leader):
    log, folder = tmp_path / "record.tlog", tmp_path / "dataset"
    words = ["repo_id=local/nod", f"root={folder}", "single_task=nod", "num_episodes=2", "episode_time_s=3", "reset_time_s=5", f"fps={FPS}"]
    words = [f"--dataset.{word}" for word in [*words, "push_to_hub=false"]]
    LeRobot("record", tmp_path, *started(file, khz, log), *teleop(leader), *words, "--play_sounds=false").end()
    check_limits(log, least=0.4)
    check_recorded(folder, log)
    again = tmp_path / "replay.tlog"
    words = ["--dataset.repo_id=local/nod", f"--dataset.root={folder}", "--dataset.episode=1", "--play_sounds=false"]
    LeRobot("replay", tmp_path, *started(file, khz, again), *words).end()
    check_limits(again, least=0.3)
    check_exported(khz, tmp_path, [log, again])


def check_recorded(folder: pathlib.Path, log: pathlib.Path) -> None:
    """Every frame is a tick of the log, to the last bit of a float32, and none has a NaN."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/nod", root=folder)
    assert dataset.num_episodes == 2 and dataset.fps == FPS and len(dataset) > 60
    frames = dataset.hf_dataset.with_format("numpy")
    state, action = np.stack(frames["observation.state"][:]), np.stack(frames["action"][:])
    assert np.isfinite(state).all() and np.isfinite(action).all()
    assert all(np.isfinite(value).all() for about in dataset.meta.stats.values() for value in about.values())
    names = dataset.features["observation.state"]["names"]
    column = {name: state[:, place] for place, name in enumerate(names)}
    recorded = kilohertz.Log(log)
    at = np.searchsorted(recorded["tick"]["number"], column["tick_mod"].astype(int))
    assert (recorded["tick"]["number"][at] == column["tick_mod"]).all()
    for joint in ("shoulder", "elbow"):
        for kind, field in (("pos", "position"), ("vel", "velocity"), ("torque", "torque")):
            assert (recorded["servo"][f"{joint}.{field}"][at].astype(np.float32) == column[f"{joint}.{kind}"]).all(), f"{joint}.{kind}"
        assert (recorded["command"][f"{joint}.position"][at].astype(np.float32) == column[f"{joint}.cmd"]).all()
    assert (np.diff(column["time_s"]) > 0).all() and (column["age_ms"] > 0).all()
    episode = np.asarray(frames["episode_index"][:])
    assert np.diff(column["time_s"])[np.diff(episode) == 1] > 5, "the pause"


def check_exported(khz: str, folder: pathlib.Path, logs: list[pathlib.Path]) -> None:
    """LeRobot's own loader reads what `khz log export` writes."""
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    out = folder / "exported"
    subprocess.run([khz, "log", "export", *map(str, logs), "--format", "lerobot", "-o", str(out), "--task", "nod"], check=True)
    dataset = LeRobotDataset("local/exported", root=out, delta_timestamps={"action": [0, 1 / FPS, 2 / FPS]})
    assert dataset.num_episodes == 2 and dataset[0]["task"] == "nod"
    batch = next(iter(torch.utils.data.DataLoader(dataset, batch_size=8)))
    assert batch["action"].shape == (8, 3, 2) and batch["observation.state"].shape == (8, 6)
    for number, path in enumerate(logs):
        recorded = kilohertz.Log(path)
        frames = [dataset.hf_dataset[index] for index in range(len(dataset)) if dataset.hf_dataset[index]["episode_index"] == number]
        at = np.searchsorted(recorded["tick"]["number"], [int(frame["tick"]) for frame in frames])
        times = recorded["tick"].time_us[at]
        assert ([frame["timestamp"] for frame in frames] == ((times - times[0]) * 1e-6).astype(np.float32)).all()
        assert ([frame["action"][1] for frame in frames] == recorded["command"]["elbow.position"][at].astype(np.float32)).all()


def test_lerobot_is_stopped_and_killed_in_mid_motion(run, tmp_path, leader):
    """By its signals, with an arm that runs on its own and stays: the stages are in the log, and no lunge is."""
    running: Running = run(lenient(ARM).replace("[targets]", "[targets]\nsilent_s = 0.5"))
    look = running.hand("look")
    status = lambda: look(status=True)["status"]  # noqa: E731
    words = [*robot(f"--robot.at={running.at}"), *teleop(leader), "--fps=30", "--teleop_time_s=600"]
    lerobot = LeRobot("teleoperate", tmp_path, *words)
    name = "lerobot arm"

    def taken() -> int:
        return int(status()["programs"].get(name, {"taken": 0})["taken"])

    until(lambda: taken() > 60 or lerobot.process.poll() is not None, 600)
    assert lerobot.process.poll() is None, lerobot.output()
    # The hand had pulled at a leader that held itself, until it was limp; now both swing evenly.
    begin = look(state=True)["tick"]
    for pause_s in (0.015, 0.065, 0.3):
        lerobot.process.send_signal(signal.SIGSTOP)
        time.sleep(pause_s)
        lerobot.process.send_signal(signal.SIGCONT)
        before = taken()
        until(lambda before=before: taken() > before + 45)
    lerobot.process.send_signal(signal.SIGKILL)
    lerobot.process.wait()
    # Nothing that was meant to be silent outlives its connection.
    until(lambda: status()["stage"] == "silent")
    assert running.process.poll() is None, "the arm holds its position"
    running.end()
    check_limits(running.log, least=0.4)
    recorded = kilohertz.Log(running.log)
    assert {1, 2, 3, 4} <= set(recorded["stage"]["stage"].tolist())
    ticks = recorded["tick"]["number"]
    follow = (np.diff(ticks) == 1) & (ticks[1:] > begin)
    for joint in ("shoulder", "elbow"):
        velocity = np.diff(recorded["command"][f"{joint}.position"].astype(float)) * RATE
        # What was missed is caught up with half of the greatest velocity beside the hand's own; the limiter alone would use all of it.
        assert np.nanmax(np.abs(velocity[follow])) < 1.2 + 0.5 * 3.0 + 0.05


def test_the_stubs_have_the_members_of_lerobot():
    """What the suite stands in for LeRobot with asks the plug-in for neither more nor less."""
    code = "import json, {module} as m; print(json.dumps(sorted(m.{name}.__abstractmethods__)))"
    stubs = str(pathlib.Path(__file__).with_name("stubs"))
    for module, name in (("lerobot.robots.robot", "Robot"), ("lerobot.teleoperators.teleoperator", "Teleoperator")):
        words = [sys.executable, "-c", code.format(module=module, name=name)]
        real = subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""}).stdout
        ours = subprocess.run(words, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": stubs}).stdout
        assert real == ours and "disconnect" in ours
    assert shutil.which("lerobot-record", path=str(BIN)) is not None
