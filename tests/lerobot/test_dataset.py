"""`khz log export --format lerobot`: a dataset of LeRobot with the times of the ticks. What is written is read with pyarrow and pandas, and compared
with the log to the last bit of a float32; `cargo xtask nightly lerobot` reads it with LeRobot's own loader, too."""

import json
import pathlib
import re
import signal
import time
from typing import Any

import kilohertz
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ARM, until

from robots import lenient

SINE = lenient(ARM).replace('name = "targets"', 'name = "sine"').replace('[targets]\nfrom = "unix:SOCKET"', "")
KINDS = {"pos": "position", "vel": "velocity", "torque": "torque"}


class Dataset:
    """What was written, by the layout of LeRobot 0.4.4."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.info = json.loads((folder / "meta/info.json").read_text())
        self.stats = json.loads((folder / "meta/stats.json").read_text())
        self.tasks = pd.read_parquet(folder / "meta/tasks.parquet")
        self.episodes = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
        path = self.info["data_path"].format(chunk_index=0, file_index=0)
        self.frames = pq.read_table(folder / path)

    def column(self, name: str) -> npt.NDArray[Any]:
        return np.array(self.frames[name].to_pylist(), dtype=self.info["features"][name]["dtype"])

    def names(self, name: str) -> list[str]:
        return list(self.info["features"][name]["names"])


def check(dataset: Dataset, logs: list[pathlib.Path]) -> None:
    """Each frame is a tick of its log, with its values and its time; the metadata of all frames is true."""
    state, action, ticks = dataset.column("observation.state"), dataset.column("action"), dataset.column("tick")
    timestamps, episode = dataset.column("timestamp"), dataset.column("episode_index")
    assert np.isfinite(state).all() and np.isfinite(action).all()
    for number, path in enumerate(logs):
        log = kilohertz.Log(path)
        here = episode == number
        at = np.searchsorted(log["tick"]["number"], ticks[here])
        assert (log["tick"]["number"][at] == ticks[here]).all()
        for column, name in enumerate(dataset.names("observation.state")):
            joint, kind = name.rsplit(".", 1)
            assert (log["servo"][f"{joint}.{KINDS[kind]}"][at].astype(np.float32) == state[here, column]).all(), name
        for column, name in enumerate(dataset.names("action")):
            assert (log["command"][f"{name.removesuffix('.pos')}.position"][at].astype(np.float32) == action[here, column]).all(), name
        times = log["tick"].time_us[at]
        assert (((times - times[0]) * 1e-6).astype(np.float32) == timestamps[here]).all()
        begin, end = dataset.episodes[number]["dataset_from_index"], dataset.episodes[number]["dataset_to_index"]
        assert np.flatnonzero(here).tolist() == list(range(begin, end)) and end - begin == dataset.episodes[number]["length"]
        assert dataset.column("frame_index")[here].tolist() == list(range(end - begin))
    assert len(dataset.episodes) == dataset.info["total_episodes"] == len(logs)
    assert dataset.column("index").tolist() == list(range(dataset.info["total_frames"]))
    for name, about in dataset.stats.items():
        values = dataset.column(name).astype(float).reshape(dataset.info["total_frames"], -1)
        assert about["count"] == [len(values)]
        for key, of in [("min", np.min), ("max", np.max), ("mean", np.mean), ("std", np.std)]:
            np.testing.assert_allclose(about[key], of(values, axis=0), rtol=1e-9, atol=1e-12)
        for share in (1, 10, 50, 90, 99):
            np.testing.assert_allclose(about[f"q{share:02}"], np.quantile(values, share / 100, axis=0), rtol=1e-9, atol=1e-12)
    assert set(dataset.stats) == set(dataset.info["features"]) == set(dataset.frames.column_names)


@pytest.fixture
def sine(run_khz, tmp_path):
    """Makes a log of a robot that swings, in virtual time."""

    def make(name: str, text: str = SINE, duration: str = "4s") -> pathlib.Path:
        (tmp_path / "sine.toml").write_text(text)
        done = run_khz("run", "sine.toml", "--virtual", "--duration", duration, "--log", f"{name}.tlog", "--no-report")
        assert done.returncode == 0, done.stderr
        return tmp_path / f"{name}.tlog"

    return make


def export(run_khz, tmp_path, *logs: pathlib.Path, fps: int = 30) -> Dataset:
    words = [*map(str, logs), "--format", "lerobot", "--output", "out", "--fps", str(fps), "--task", "nod twice"]
    done = run_khz("log", "export", *words)
    assert done.returncode == 0, done.stderr
    return Dataset(tmp_path / "out")


def test_two_logs_are_two_episodes_with_the_times_of_their_ticks(run_khz, tmp_path, sine):
    logs = [sine("a"), sine("b", duration="2s")]
    dataset = export(run_khz, tmp_path, *logs)
    check(dataset, logs)
    assert dataset.names("observation.state") == [f"{joint}.{kind}" for kind in KINDS for joint in ("shoulder", "elbow")]
    assert dataset.names("action") == ["shoulder.pos", "elbow.pos"]
    # Of 200 ticks a second the nearest to each thirtieth, and not number/30.
    steps = np.diff(dataset.column("timestamp")[dataset.column("episode_index") == 0])
    assert set(np.round(steps * 1000).tolist()) == {30, 35} and abs(steps.mean() - 1 / 30) < 1e-4


def test_the_schema_is_that_of_lerobot(run_khz, tmp_path, sine):
    dataset = export(run_khz, tmp_path, sine("a"))
    schema = dataset.frames.schema
    for name, width in [("action", 2), ("observation.state", 6)]:
        assert pa.types.is_list(schema.field(name).type) and schema.field(name).type.value_type == pa.float32()
        assert dataset.info["features"][name] == {"dtype": "float32", "shape": [width], "names": dataset.names(name)}
    assert schema.field("timestamp").type == pa.float32()
    for name in ("tick", "frame_index", "episode_index", "index", "task_index"):
        assert schema.field(name).type == pa.int64()
        assert dataset.info["features"][name] == {"dtype": "int64", "shape": [1], "names": None}
    assert dataset.tasks.loc["nod twice"].task_index == 0 and dataset.tasks.iloc[0].name == "nod twice"
    assert dataset.episodes[0]["tasks"] == ["nod twice"]
    about = {key: dataset.info[key] for key in ("codebase_version", "fps", "splits", "total_tasks", "robot_type")}
    assert about == {"codebase_version": "v3.0", "fps": 30, "splits": {"train": "0:1"}, "total_tasks": 1, "robot_type": "kilohertz"}


def test_a_frame_each_tick(run_khz, tmp_path, sine):
    log = sine("a")
    dataset = export(run_khz, tmp_path, log, fps=200)
    check(dataset, [log])
    recorded = kilohertz.Log(log)
    known = np.isfinite(recorded["command"]["elbow.position"]) & np.isfinite(recorded["servo"]["elbow.position"])
    assert dataset.info["total_frames"] == known.sum() > 500


def test_one_joint_is_no_list(run_khz, tmp_path, sine):
    head, tail = SINE.split('[[servo]]\nname = "elbow"\nid = 2\n')
    log = sine("a", head + tail)
    dataset = export(run_khz, tmp_path, log)
    assert dataset.frames.schema.field("action").type == pa.float32()
    assert dataset.info["features"]["action"]["shape"] == [1]


def test_a_loop_that_stood_still_shows_in_the_times(run_khz, tmp_path, run):
    """As LeRobot itself records, the frames behind a gap would come too early by it."""
    running = run()
    hand = running.hand()
    hand(position=[0.2, 0.2], hold_s=60)
    begin = hand(state=True)["tick"]
    until(lambda: hand(state=True)["tick"] > begin + 100)
    running.process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    running.process.send_signal(signal.SIGCONT)
    until(lambda: hand(state=True)["tick"] > begin + 300)
    running.end()
    dataset = export(run_khz, tmp_path, running.log)
    check(dataset, [running.log])
    steps = np.diff(dataset.column("timestamp"))
    assert steps.max() > 0.25
    assert dataset.column("timestamp")[-1] - dataset.info["total_frames"] / 30 > 0.2


def test_what_makes_no_dataset(run_khz, tmp_path, sine):
    log, elbow = sine("a"), sine("b", SINE.replace('"elbow"', '"wrist"'))
    (tmp_path / "there").mkdir()
    for words, why in [
        ([str(log), "-o", "there"], "there is there already"),
        ([str(log)], "Give --output"),
        ([str(log), str(elbow), "-o", "x"], "b.tlog.*wrist.pos.*elbow.pos"),
        ([str(log), "-o", "x", "--from", "1"], "whole logs"),
        ([str(log), "-o", "x", "--fps", "0"], "--fps"),
        ([str(log), "-o", "x", "--fps", "400"], "a.tlog.*200 ticks a second, too few for 400 frames: ask for 200"),
        ([str(tmp_path / "sine.toml"), "-o", "x"], "sine.toml"),
    ]:
        done = run_khz("log", "export", *words, "--format", "lerobot")
        assert done.returncode != 0, words
        assert re.search(why, done.stderr.replace("\n", " ")), done.stderr
        assert not (tmp_path / "x").exists()
    done = run_khz("log", "export", str(log), "--format", "csv", "--fps", "30")
    assert done.returncode != 0 and "LeRobot" in done.stderr
