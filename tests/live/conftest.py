"""Foxglove's own client, in the versions that `package-lock.json` pins, and a robot to look at."""

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from robots import lenient

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
MODULES = TARGET / "tests-live"


@pytest.fixture(scope="session")
def client() -> Callable[..., None]:
    """Runs the client: `client(url, protocol, count, file)`."""
    wanted = (HERE / "package-lock.json").read_text()
    stamp = MODULES / "installed.json"
    if not stamp.is_file() or stamp.read_text() != wanted:
        MODULES.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, MODULES / name)
        install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "10"]
        subprocess.run(install, cwd=MODULES, check=True)
        stamp.write_text(wanted)

    def run(*words: object) -> None:
        subprocess.run(["node", HERE / "client.mjs", *map(str, words)], cwd=MODULES, check=True, timeout=280)

    return run


@pytest.fixture
def robot(khz: str, tmp_path: pathlib.Path) -> Iterator[Callable[..., tuple[str, "subprocess.Popen[bytes]"]]]:
    """Starts the emulated robot with a live view, and returns its address and the run; what else is given are further words."""
    runs: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> tuple[str, "subprocess.Popen[bytes]"]:
        text = (ROOT / "robots/quadruped.toml").read_text()
        # Half as fast there is time for a watchdog of more than 1.27 s, too.
        for strict, slow in (("rate_hz = 1000", "rate_hz = 500"), ('watchdog = "int8"', 'watchdog = "int16"')):
            assert strict in text
            text = text.replace(strict, slow)
        (tmp_path / "robot.toml").write_text(lenient(text))
        command = [khz, "run", "robot.toml", "--view=127.0.0.1:0", "--duration", "600s", "--no-report", "--log", "run.tlog", *words]
        run = subprocess.Popen(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        runs.append(run)
        assert run.stderr is not None
        for line in run.stderr:
            if line.startswith(b"live view: "):
                return line.split()[2].decode(), run
        raise AssertionError("no live view")

    yield start
    for run in runs:
        run.terminate()
        run.communicate(timeout=60)
