"""Every sentence that a run prints of itself, compared with what was done to it on purpose: level, cause, servo, count, worst and cure.

The cases in virtual time are exact (`cases.py`); those by the computer's clock (`live_cases.py`) are what only a kernel can do, and are
played by `cargo xtask nightly sentences` alone. With UPDATE=1 what was played is written to docs/time.md."""

import json
import os
import pathlib
import re
import signal
import subprocess
from collections.abc import Callable

import live
import matrix
import published
import pytest
from cases import CASES, OPEN, OPEN_LOGS
from live_cases import LIVE
from matrix import Judged
from scenario import robot, wait_for

pytestmark = pytest.mark.timeout(1800)
SLOW = bool(os.environ.get("KHZ_SLOW"))
SEEDS = range(1, 11)
RIGHT = 0.95


@pytest.fixture(scope="module")
def player(example: Callable[[str], pathlib.Path]) -> pathlib.Path:
    """The program that plays a script in virtual time, just built."""
    return example("virtual_run")


@pytest.fixture(scope="module")
def judged(player: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    """Every case in virtual time."""
    runs = matrix.play(player, tmp_path_factory.mktemp("sentences"), CASES, SEEDS)
    return printed("sentences", runs)


@pytest.fixture(scope="module")
def lived(khz: str, tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    """Every case by the computer's clock that can be produced here."""
    if not SLOW:
        pytest.skip("by the computer's clock: `cargo xtask nightly sentences`")
    runs = []
    for name, case in LIVE.items():
        if why := case.refused():
            print(f"not produced: {name}: {why}")
            continue
        runs += [live.play(khz, tmp_path_factory.mktemp("live"), name, seed) for seed in SEEDS]
    return printed("live sentences", runs)


def printed(name: str, runs: list[Judged]) -> list[Judged]:
    """Prints the matrix, and writes it where that is asked for."""
    print(published.summary(runs))
    for run in runs:
        if not run.is_right():
            print(run.explain())
    if os.environ.get("UPDATE"):
        published.write(name, runs)
    return runs


def test_nothing_bad_is_called_good(judged: list[Judged]) -> None:
    assert not [run.explain() for run in judged if "flattering" in run.wrong]


def test_sentences_are_right(judged: list[Judged]) -> None:
    """All but those that are known to be wrong; one that was repaired leaves that list."""
    others = [run for run in judged if run.name not in OPEN]
    assert sum(run.is_right() for run in others) >= RIGHT * len(others)
    assert not [run.name for run in judged if run.name in OPEN and run.is_right()]


def test_a_log_says_what_its_run_says(judged: list[Judged]) -> None:
    assert {run.name for run in judged if "log" in run.wrong} == OPEN_LOGS


def test_live_sentences_are_right(lived: list[Judged]) -> None:
    assert not [run.explain() for run in lived if "flattering" in run.wrong]
    assert sum(run.is_right() for run in lived) >= RIGHT * len(lived)


def test_the_page_shows_the_sentence(judged: list[Judged]) -> None:
    assert published.read("sentences") == published.rows(judged), "UPDATE=1 cargo xtask nightly sentences"


def test_every_cure_that_is_a_command_runs_as_printed(khz: str, judged: list[Judged], tmp_path: pathlib.Path) -> None:
    """And is about this robot: without a file a command is about the one that is built in."""
    (tmp_path / "robot.toml").write_text(robot())
    commands = {command for run in judged for command in re.findall(r"`(khz [^`]*)`", run.text)}
    assert commands
    for command in sorted(commands):
        words = [khz, *command.split()[1:]]
        assert "robot.toml" in words or "doctor" in words, f"`{command}` names no robot"
        words += ["--duration", "300ms", "--no-report"] if words[1] == "run" else []
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 1), f"`{command}`: {done.stderr}"


def test_a_run_that_ended_early_meets_no_requirement(khz: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "robot.toml").write_text(robot())
    words = [khz, "run", "robot.toml", "--duration", "60s", "--require", "missed=1000000", "--log", "run.tlog", "--json"]
    process = subprocess.Popen([*words, "--no-report"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    wait_for(process, tmp_path / "run.tlog")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out


def test_a_requirement_says_over_how_much_it_was_judged(khz: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "robot.toml").write_text(robot('clock = "virtual"'))
    words = [khz, "run", "robot.toml", "--duration", "20ms", "--require", "missed=0", "--json", "--no-report"]
    reported = json.loads(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout)
    ticks = reported["controlled"]["ticks"]
    assert any(ticks == value or str(ticks) in str(value) for value in reported["required"][0].values()), reported["required"]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60 and len(LIVE) >= 12
