"""What every Python test shares: the `khz` command under test."""

import os
import pathlib
import subprocess
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def khz() -> str:
    """Path of the `khz` command: $KHZ, or what `cargo build --release` made."""
    path = pathlib.Path(os.environ.get("KHZ", ROOT / "target/release/khz"))
    if not path.is_file():
        pytest.fail(f"{path} is not there: run `cargo build --release`, or set KHZ")
    return str(path)


@pytest.fixture
def run_khz(khz: str, tmp_path: pathlib.Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs `khz` to its end in a folder of its own and returns what it printed."""

    def run(*words: str, timeout: float = 60.0) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [khz, *words],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
