"""Campaigns on Ray: whatever is killed in the middle, every seed is in the dataset once, with the result it has alone."""

import collections
import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pyarrow.dataset
import pytest

from kilohertz import campaign
from kilohertz.campaign.cluster import _folder, cluster, on_ray
from kilohertz.campaign.parts import Folder, Seeds
from kilohertz.campaign.task import Task

# Ray takes up to ten seconds to start where others use the CPUs, too.
JOINT = """
[robot]
name = "joint"
[loop]
rate_hz = 500
[bus.main]
link = "emulated"
[[servo]]
name = "joint"
bus = "main"
id = 1
limits = { position = [-1.0, 1.0], velocity = 2.0, torque = 3.0 }
"""

#: `khz`, with a limit that a test sets on how far it goes: chunks that begin after the seed in the file `hold` wait until that is gone. So nothing
#: depends on how fast workers are, or how late the test looks.
HELD = """#!/bin/sh
for word; do [ "$last" = --seed ] && seed=$word; last=$word; done
while [ "$seed" -gt "$(cat {hold} 2>/dev/null || echo 99999)" ]; do sleep 0.1; done
exec {khz} "$@"
"""

#: This one is driven too fast in some scenarios: nothing stops it at five times its limit.
FAST = JOINT + "[supervisor]\nvelocity_factor = 5.0\n"

EPISODES = """
import os, pathlib, random, signal, time
import kilohertz
import neighbour

HERE = pathlib.Path(__file__).parent


def wanted(what: str) -> bool:
    return (HERE / what).exists()


class Policy:
    def __init__(self, env):
        self.env, self.decisions = env, 0

    def __call__(self, observation):
        self.decisions += 1
        assert self.decisions <= 5, "a policy is new in every episode"
        seed = self.env.np_random_seed
        if seed == 4 and wanted("kill-worker-always"):
            os.kill(os.getppid(), signal.SIGKILL)
        if seed == 4 and wanted("kill-worker-once"):
            (HERE / "kill-worker-once").unlink()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)
        if seed == 4 and wanted("kill-episode-once"):
            (HERE / "kill-episode-once").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if wanted("trouble"):
            print("a policy may print")
            if seed == 3:
                time.sleep(1000)
            if seed == 5:
                os.abort()
            if seed == 7:
                raise RuntimeError("no idea")
            if seed == 8:
                os._exit(3)
            if seed == 9 and self.decisions == 3:
                self.env.inject("fault", "joint", 33)
        if seed == 2 and wanted("bad-text"):
            raise RuntimeError("no \\udc80 character")
        if seed == 2 and wanted("touched"):
            (HERE / "joint.toml").touch()
        return neighbour.GAIN * observation[:1] + random.uniform(-1, 1)


def make(robot: str):
    reward = lambda info: float("nan") if wanted("nan") else info["power"] + info["time"]
    env = kilohertz.Env(robot, episode=0.1, randomise={"latency": (0, 20)}, reward=reward)
    return env, Policy(env)


def endless(robot: str):
    return kilohertz.Env(robot, episode=None), None
"""


@pytest.fixture
def robot(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "joint.toml"
    path.write_text(JOINT)
    return path


@pytest.fixture
def episodes(tmp_path: pathlib.Path) -> str:
    (tmp_path / "neighbour.py").write_text("GAIN = -0.3\n")
    (tmp_path / "policy.py").write_text(EPISODES)
    return f"{tmp_path}/policy.py:make"


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """One for all campaigns in this process."""
    began = time.monotonic()
    others: list["subprocess.Popen[bytes]"] = []
    started = threading.Event()

    def start_others() -> None:
        """What this program starts while Ray starts is no part of it."""
        while not started.wait(0.3):
            others.append(subprocess.Popen(["sleep", "1000"]))

    starter = threading.Thread(target=start_others)
    starter.start()
    try:
        with cluster(2, None) as ray:
            print(f"\n[Ray {ray.__version__} started in {time.monotonic() - began:.1f} s]")
            started.set()
            yield ray
        assert others and all(one.poll() is None for one in others), "the campaign's sweeper ended others' processes"
    finally:
        started.set()
        starter.join()
        for one in others:
            one.kill()
            one.wait()


def seeds_of(folder: pathlib.Path) -> list[int]:
    """The seeds of a dataset, as anybody reads it."""
    column = pyarrow.dataset.dataset(folder, format="parquet").to_table()["seed"]
    return sorted(column.to_pylist())


def alone(robot: pathlib.Path, first: int, last: int, khz: str | None = None, episodes: str | None = None) -> list[dict[str, Any]]:
    """The rows without Ray, in one process."""
    return Task.of(robot, episodes, 60.0, khz).rows(first, last)


def marked(mark: str) -> dict[int, str]:
    """Processes with this mark in their environment."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            pass
    return found


def listening(processes: dict[int, str]) -> list[str]:
    """Local addresses of the sockets on which these processes accept connections."""
    sockets = set()
    for process in processes:
        # Some of them have ended meanwhile.
        with contextlib.suppress(OSError):
            for handle in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    sockets.add(os.readlink(f"/proc/{process}/fd/{handle}"))
    addresses = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                addresses.append(words[1].split(":")[0])
    return addresses


def ended(mark: str) -> None:
    """Waits for the end of all processes with this mark."""
    end = time.monotonic() + 60
    while left := marked(mark):
        assert time.monotonic() < end, left
        time.sleep(0.1)


def until(holds: Callable[[], Any], within: float = 120.0) -> Any:
    end = time.monotonic() + within
    while time.monotonic() < end:
        if result := holds():
            return result
        time.sleep(0.02)
    pytest.fail("waited in vain")


def test_a_campaign_that_is_killed_and_interrupted_goes_on_and_its_failures_replay(khz: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "fast.toml").write_text(FAST)
    out = tmp_path / "out"
    mark = f"KHZ_TEST_MARK={uuid.uuid4()}"
    temporary = tmp_path / "t"
    temporary.mkdir()
    # Sockets in a folder with a long path cannot be.
    short = pathlib.Path(tempfile.mkdtemp(prefix="khz-", dir="/tmp"), "t")
    short.symlink_to(temporary)
    environment = {**os.environ, **dict([mark.split("=")]), "TMPDIR": str(short)}
    words = [sys.executable, "-m", "kilohertz.campaign", "fast.toml", "--out", "out", "--workers", "2"]
    hold, held = tmp_path / "hold", tmp_path / "khz"
    held.write_text(HELD.format(hold=shlex.quote(str(hold)), khz=shlex.quote(khz)))
    held.chmod(0o755)
    words += ["--seed", "60", "--scenarios", "80", "--chunk", "5", "--khz", str(held)]

    @contextlib.contextmanager
    def begin() -> Iterator["subprocess.Popen[str]"]:
        pipe = subprocess.PIPE
        with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as driver:
            try:
                yield driver
            finally:
                # A test that has failed does not wait for a campaign that is held.
                driver.kill()

    def parts() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in out.glob("part-*.parquet")}

    try:
        # Three of the sixteen chunks.
        hold.write_text("74")
        with begin() as driver:
            until(lambda: driver.poll() is not None or parts())
            assert driver.poll() is None, driver.communicate()
            addresses = listening(marked(mark))
            driver.kill()
        kept = parts()
        ended(mark)
        assert not list(temporary.iterdir())
        # IPv4 and IPv6 loopback, as the kernel writes them.
        assert addresses and set(addresses) <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
        assert 0 < len(kept) <= 3
        hold.write_text("89")
        with begin() as driver:
            until(lambda: driver.poll() is not None or len(parts()) > len(kept))
            # As a terminal does: to everybody in the group.
            os.killpg(driver.pid, signal.SIGINT)
            errors = driver.communicate()[1]
        assert driver.returncode == 130 and "the same command goes on" in errors, errors
        ended(mark)
        assert parts().items() > kept.items()
        hold.unlink()
        with begin() as driver:
            text, errors = driver.communicate()
        assert driver.returncode == 1, text + errors
        assert "of 80 scenarios are in out already" in errors
        ended(mark)
        assert not list(temporary.iterdir())
    finally:
        for process in marked(mark):
            os.kill(process, signal.SIGKILL)
        short.unlink()
        short.parent.rmdir()
    assert parts().items() >= kept.items() and seeds_of(out) == list(range(60, 140))

    command = [khz, "drill", "campaign", "fast.toml", "--seed", "60", "--scenarios", "80", "--json"]
    direct = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout)
    rows = Folder(out).table(Seeds(60, 139)).to_pylist()
    assert [row["seed"] for row in rows] == list(range(60, 140))
    for name in ("armed", "brought_down"):
        assert sum(row[name] for row in rows) == direct[name]
    found = [(row["seed"], row["violated"], row["what"], row["scenario"]) for row in rows if row["verdict"] != "held"]
    assert found == [(each["seed"], each["invariant"], each["what"], each["scenario"]) for each in direct["violations"]]

    replays = re.findall(r"^seed (\d+): (\w+): (.*)\n.*\n  replay: (.*)$", text, re.M)
    assert len(replays) == len(found) > 0
    for seed, _, what, replay in replays:
        done = subprocess.run(replay, cwd=tmp_path, shell=True, capture_output=True, text=True)
        assert done.returncode == 1 and what in done.stdout and f"seed {seed}: " in done.stdout, done.stdout


def test_results_are_the_same_in_chunks_of_any_size(ray: Any, khz: str, robot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    expected = alone(robot, 11, 30, khz)
    for chunk in (3, 7, 50):
        done = campaign.run(robot, out=tmp_path / str(chunk), seed=11, scenarios=20, chunk=chunk, khz=khz)
        assert done.held and done.verdicts == {"held": 20}
        names = pyarrow.schema(done.table().schema).names
        assert [{name: row.get(name) for name in names} for row in expected] == done.table().to_pylist()
    again = tmp_path / "again"
    campaign.run(robot, out=again, seed=11, scenarios=20, chunk=7, khz=khz)
    for part in again.glob("part-*"):
        assert part.read_bytes() == (tmp_path / "7" / part.name).read_bytes()
    # More seeds, other chunks: only what is missing runs.
    more = campaign.run(robot, out=again, seed=8, scenarios=30, chunk=4, khz=khz)
    assert sum(more.verdicts.values()) == 30 and seeds_of(again) == list(range(8, 38))


def test_episodes_that_hang_crash_or_fail_have_a_row_that_says_so(ray: Any, robot: pathlib.Path, episodes: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "trouble").touch()
    done = campaign.run(robot, out=tmp_path / "out", episodes=episodes, seed=1, scenarios=10, chunk=5, timeout=20.0)
    rows = {row["seed"]: row for row in done.table().to_pylist()}
    others = campaign.run(robot, out=tmp_path / "others", episodes=episodes, seed=4, scenarios=6, chunk=3)
    assert others.table().to_pylist() == [rows[seed] for seed in range(4, 10)]
    assert list(rows) == list(range(1, 11))
    failed = {seed: (row["verdict"], row["what"]) for seed, row in rows.items() if row["verdict"] != "held"}
    assert failed.keys() == {3, 5, 7, 8, 9}
    assert failed[3] == ("timeout", "no result after 20 s") and failed[5] == ("crashed", "killed by SIGABRT")
    assert failed[7][0] == "error" and re.fullmatch(r"RuntimeError: no idea \(policy.py, line \d+\)", failed[7][1])
    assert failed[8] == ("crashed", "ended with code 3")
    assert failed[9][0] == "violated" and "servo fault 33" in failed[9][1] and rows[9]["violated"] == "terminated"
    assert rows[1]["length"] == 5 and rows[1]["reward"] > 0 and "latency" in rows[1]["scenario"]
    assert rows[1]["reward"] != rows[2]["reward"]

    replay = {row["seed"]: row["replay"] for row in done.failures}
    shown = subprocess.run(replay[7], shell=True, capture_output=True, text=True)
    assert shown.returncode == 1 and failed[7][1] in shown.stdout and "Traceback" in shown.stderr, shown
    shown = subprocess.run(replay[9], shell=True, capture_output=True, text=True)
    assert failed[9][1] in shown.stdout and f"reward: {rows[9]['reward']}" in shown.stdout, shown


def test_a_worker_that_is_killed_loses_nothing(ray: Any, robot: pathlib.Path, episodes: str, tmp_path: pathlib.Path) -> None:
    for what in ("kill-worker-once", "kill-episode-once"):
        (tmp_path / what).touch()
        notes: list[str] = []
        out = tmp_path / f"out-{what}"
        done = campaign.run(robot, out=out, episodes=episodes, scenarios=8, chunk=4, notify=notes.append)
        assert not (tmp_path / what).exists()
        assert done.held and seeds_of(out) == list(range(1, 9))
        assert any("its worker was killed" in line for line in notes) == (what == "kill-worker-once"), notes
        expected = alone(robot, 1, 8, episodes=episodes)
        assert [row["reward"] for row in done.table().to_pylist()] == [row["reward"] for row in expected]


def test_a_chunk_that_keeps_failing_is_named_and_the_others_go_on(ray: Any, robot: pathlib.Path, episodes: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "kill-worker-always").touch()
    out = tmp_path / "out"
    done = campaign.run(robot, out=out, episodes=episodes, scenarios=9, chunk=3, attempts=2)
    assert not done.held and [failed.seeds for failed in done.failed] == [Seeds(4, 6)]
    assert "NOT DONE, seeds 4 to 6: its worker was killed (2 attempts)" in str(done)
    assert seeds_of(out) == [1, 2, 3, 7, 8, 9]
    (tmp_path / "kill-worker-always").unlink()
    done = campaign.run(robot, out=out, episodes=episodes, scenarios=9, chunk=3)
    assert done.held and seeds_of(out) == list(range(1, 10))


def test_a_full_disk_ends_it_with_what_is_written(ray: Any, khz: str, robot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"

    def fill(line: str) -> None:
        """From the first part on the folder is on a full disk."""
        for first in range(1, 13, 3):
            name = f"part-{first:010}-{first + 2:010}.parquet"
            if not (out / name).exists():
                (out / f"_writing-{name}.part").symlink_to("/dev/full")

    with pytest.raises(campaign.CampaignError, match=r"part-.*: No space left on device; free some space and start again"):
        campaign.run(robot, out=out, scenarios=12, chunk=3, khz=khz, notify=fill)
    assert len(seeds_of(out)) == 3
    done = campaign.run(robot, out=out, scenarios=12, chunk=3, khz=khz)
    assert done.held and seeds_of(out) == list(range(1, 13))
    assert {path.name for path in out.iterdir() if not path.name.startswith("part-")} == {"_campaign.json"}


def test_a_damaged_part_is_put_aside_and_run_again(ray: Any, khz: str, robot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    first = campaign.run(robot, out=out, scenarios=6, chunk=3, khz=khz)
    rows = first.table()
    cut, renamed = sorted(out.glob("part-*"))
    cut.write_bytes(cut.read_bytes()[:-20])
    renamed.rename(out / "part-0000000005-0000000007.parquet")
    notes: list[str] = []
    again = campaign.run(robot, out=out, scenarios=6, chunk=3, khz=khz, notify=notes.append)
    assert again.table().equals(rows) and seeds_of(out) == list(range(1, 7))
    assert sum("put aside" in line for line in notes) == 2 and len(list(out.glob("_damaged-*"))) == 2


def test_a_folder_of_another_campaign_is_refused(ray: Any, khz: str, robot: pathlib.Path, episodes: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"

    def refused(match: str, **words: Any) -> None:
        with pytest.raises(campaign.CampaignError, match=match):
            campaign.run(words.pop("robot", robot), **{"out": out, "scenarios": 4, "khz": khz, **words})

    campaign.run(robot, out=out, scenarios=4, chunk=2, khz=khz)
    other = tmp_path / "other.toml"
    other.write_text(JOINT + "# changed\n")
    refused("the robot file differs", robot=other)
    copy = tmp_path / "khz"
    copy.write_bytes(pathlib.Path(khz).read_bytes() + b" ")
    copy.chmod(0o755)
    refused("the program khz differs", khz=copy)
    refused("the kind of campaign", episodes=episodes)
    with Folder(out).locked():
        refused("another process runs a campaign into this folder")

    def moved(robot: pathlib.Path, first: int) -> pathlib.Path:
        """A part of another folder."""
        elsewhere = tmp_path / f"{robot.stem}-{first}"
        campaign.run(robot, out=elsewhere, seed=first, scenarios=2, chunk=2, khz=khz)
        (part,) = elsewhere.glob("part-*")
        return part.rename(out / part.name)

    double = moved(robot, 2)
    refused("part-0000000002.*would count twice")
    double.unlink()
    moved(other, 5)
    refused("part-0000000005.*is of another campaign")


def test_what_cannot_begin_says_why(ray: Any, khz: str, robot: pathlib.Path, episodes: str, tmp_path: pathlib.Path) -> None:
    def refused(robot: pathlib.Path, match: str, **words: Any) -> None:
        with pytest.raises((campaign.CampaignError, ValueError), match=match):
            campaign.run(robot, **{"out": tmp_path / uuid.uuid4().hex, "khz": khz, **words})

    wrong = tmp_path / "wrong.toml"
    wrong.write_text(JOINT.replace("id = 1", "id = 1000"))
    refused(wrong, "khz does not begin: ended with code 2: error: .*id")
    refused(tmp_path / "nowhere.toml", "nowhere.toml: No such file")
    refused(robot, "nokhz: No such file", khz=tmp_path / "nokhz")
    refused(robot, "FILE.py:NAME or MODULE:NAME", episodes="policy.py")
    refused(robot, "has no attribute 'nothing'", episodes=episodes.replace(":make", ":nothing"))
    refused(robot, "has no end", episodes=episodes.replace(":make", ":endless"))
    refused(robot, "timeout is 0", timeout=0.0)
    refused(robot, "chunk is 0", chunk=0)
    refused(robot, "0 seeds", scenarios=0)


def test_the_text_of_a_robot_file_is_kept_for_replays(ray: Any, khz: str, tmp_path: pathlib.Path) -> None:
    done = campaign.run(text=FAST, out=tmp_path / "out", seed=71, scenarios=1, khz=khz)
    replay = shlex.split(done.failures[0]["replay"])
    again = subprocess.run(replay, capture_output=True, text=True)
    assert again.returncode == 1 and done.failures[0]["what"] in again.stdout
    with pytest.raises(campaign.CampaignError, match="another robot"):
        campaign.run(text=JOINT, out=tmp_path / "out", seed=71, scenarios=1, khz=khz)


def test_without_ray_the_message_says_what_to_install(khz: str, robot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError(name='ray')")
    words = [sys.executable, "-m", "kilohertz.campaign", robot, "--out", "out", "--khz", khz]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "pip install 'kilohertz[campaign]'" in done.stderr, done.stderr


def test_files_of_others_are_not_touched(ray: Any, khz: str, robot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "mine"
    (out / "_writing-room").mkdir(parents=True)
    for name in ("_writing-thesis.txt", "_robot.toml", "part-0000000001-0000000002.parquet"):
        (out / name).write_text("mine")
    for words in ({"robot": robot}, {"text": JOINT}):
        with pytest.raises(campaign.CampaignError, match="has other files .* and no _campaign.json"):
            campaign.run(**words, out=out, scenarios=2, khz=khz)
    assert {path.name: path.is_dir() or path.read_text() for path in out.iterdir()} == {
        "_writing-room": True,
        "_writing-thesis.txt": "mine",
        "_robot.toml": "mine",
        "part-0000000001-0000000002.parquet": "mine",
    }
    for name in ("s3://bucket/drills", "s3:/bucket/drills"):
        with pytest.raises(campaign.CampaignError, match="is an address"):
            campaign.run(robot, out=name, scenarios=2, khz=khz)


def test_a_robot_file_that_is_corrected_goes_into_the_same_folder(ray: Any, khz: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "robot.toml"
    for words in ({"text": "[robt]"}, {"robot": file}):
        file.write_text("[robt]")
        with pytest.raises(campaign.CampaignError, match="khz does not begin"):
            campaign.run(**words, out=tmp_path / "out", scenarios=1, khz=khz)
        assert not list((tmp_path / "out").iterdir())
    file.write_text(JOINT)
    assert campaign.run(file, out=tmp_path / "out", scenarios=1, khz=khz).held


def test_a_damaged_column_is_noticed(ray: Any, khz: str, robot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "out"
    rows = campaign.run(robot, out=out, scenarios=3, khz=khz).table()
    (part,) = out.glob("part-*")
    whole = part.read_bytes()
    for place in (whole.index(b"held") + 1, whole.index(b"joint") + 2):
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 8]) + whole[place + 1 :])
        notes: list[str] = []
        again = campaign.run(robot, out=out, scenarios=3, khz=khz, notify=notes.append)
        assert again.table().equals(rows) and "put aside" in notes[0]
        # Polars takes every file that is called so.
        assert len(list(out.glob("*.parquet"))) == 1


def test_strange_rewards_and_texts_have_a_row(ray: Any, robot: pathlib.Path, episodes: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "bad-text").touch()
    done = campaign.run(robot, out=tmp_path / "text", episodes=episodes, scenarios=3)
    assert done.verdicts == {"held": 2, "error": 1} and "no ? character" in done.failures[0]["what"]
    (tmp_path / "nan").touch()
    done = campaign.run(robot, out=tmp_path / "nan-rewards", episodes=episodes, seed=5, scenarios=1)
    assert done.verdicts == {"error": 1} and "the reward of step 1 is nan" in done.failures[0]["what"]


def test_a_file_that_was_something_else_meanwhile_gives_no_result(ray: Any, robot: pathlib.Path, episodes: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "touched").touch()
    done = campaign.run(robot, out=tmp_path / "out", episodes=episodes, scenarios=2, attempts=1)
    assert not done.held and "was written meanwhile" in done.failed[0].why
    assert str(done).startswith("NO RESULT of 2 of 2 scenarios\n\nNOT DONE, seeds 1 to 2: ")


def test_a_ray_without_processors_is_an_error() -> None:
    class Idle:
        def cluster_resources(self) -> dict[str, float]:
            return {}

    with pytest.raises(campaign.CampaignError, match="Ray has no CPU"):
        next(on_ray(Idle(), Task(None, None, 1.0, None, {}, ""), iter([Seeds(1, 1)]), 1, [], print))


def test_another_child_does_not_keep_a_campaign_from_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    long = tmp_path / ("é" * 20)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with _folder() as folder:
        assert len(folder.encode()) < 50
        child = os.fork()
        if child == 0:
            time.sleep(300)
            os._exit(0)
    assert not pathlib.Path(folder).exists()
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_output_that_is_not_read_changes_nothing(khz: str, robot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    words = shlex.join([sys.executable, "-m", "kilohertz.campaign", str(robot), "--scenarios", "5", "--khz", khz])
    for ending in ("| head -1", "2>&1 | head -1", "> /dev/full", "2> /dev/full"):
        done = subprocess.run(["bash", "-c", f"{words} {ending}; exit ${{PIPESTATUS[0]}}"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    ascii = {**os.environ, "PYTHONIOENCODING": "ascii"}
    (tmp_path / "fast.toml").write_text(FAST)
    replay = shlex.split(words.replace(str(robot), "fast.toml").replace("--scenarios 5", "--scenarios 1 --seed 71"))
    done = subprocess.run(replay, cwd=tmp_path, env=ascii, capture_output=True, text=True)
    assert done.returncode == 1 and "violated" in done.stdout, done.stderr


def test_a_large_campaign_begins_at_once(tmp_path: pathlib.Path) -> None:
    wanted = Seeds.of(1, 9_000_000_000_000_000_000)
    assert Folder(tmp_path).missing(wanted, print) == [wanted]
    assert next(wanted.cut(50)) == Seeds(1, 50)


def test_missing_seeds_are_what_no_part_has() -> None:
    wanted = Seeds.of(5, 20)
    assert list(wanted.without([Seeds(1, 6), Seeds(20, 30), Seeds(10, 12)])) == [Seeds(7, 9), Seeds(13, 19)]
    assert list(wanted.without([Seeds(1, 40)])) == [] and list(wanted.without([])) == [wanted]
    pieces = list(wanted.cut(7))
    assert collections.Counter(map(len, pieces)) == {7: 2, 6: 1} and (pieces[0].first, pieces[-1].last) == (5, 24)
