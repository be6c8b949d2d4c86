"""The dataset of a month of logs, made once."""

import pathlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import month
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Month:
    """The folder with the logs and, in `logs`, their dataset; and what is known of them."""

    folder: pathlib.Path
    logs: list[month.Log]
    output: str


@pytest.fixture(scope="session")
def player(example: Callable[[str], pathlib.Path]) -> pathlib.Path:
    """The program that plays a script in virtual time."""
    return example("virtual_run")


@pytest.fixture(scope="session")
def export(khz: str) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Adds logs to the dataset `logs` in a folder."""

    def run(folder: pathlib.Path, *logs: str) -> "subprocess.CompletedProcess[str]":
        words = [khz, "log", "export", *logs, "--format", "dataset", "-o", "logs"]
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(scope="session")
def march(
    player: pathlib.Path,
    export: Callable[..., "subprocess.CompletedProcess[str]"],
    tmp_path_factory: pytest.TempPathFactory,
) -> Month:
    folder = tmp_path_factory.mktemp("march")
    logs = month.make_all(player, folder)
    done = export(folder, *(log.name for log in logs))
    assert done.returncode == 0, done.stderr
    return Month(folder, logs, done.stdout)
