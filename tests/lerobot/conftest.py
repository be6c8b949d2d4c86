"""The plug-in, as it lies in the clone, and LeRobot, or what stands for it."""

import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "python" / "lerobot"))
# The tests' environment has LeRobot's files, but nothing of what they need.
if importlib.util.find_spec("draccus") is None:
    sys.path.insert(0, str(HERE / "stubs"))

from robots import lenient  # noqa: E402

ARM = """
[robot]
name = "arm"
[loop]
rate_hz = 200
[bus.main]
link = "emulated"
[servo_defaults]
family = "damiao"
bus = "main"
damiao = { can_fd = true, model = "4310", kp = 40, kd = 1 }
limits = { position = [-1.5, 1.5], velocity = 3, acceleration = 30 }
joint = { inertia = 0.05, viscous = 0.1 }
[[servo]]
name = "shoulder"
id = 1
[[servo]]
name = "elbow"
id = 2
[controller]
name = "targets"
[targets]
from = "unix:SOCKET"
[supervisor.reactions]
targets = "warn"
"""


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Hand:
    """A program of a few lines that speaks to the socket by itself: the judge of what the plug-in sends and receives."""

    def __init__(self, at: str, name: str = "hand") -> None:
        self._name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(60)
        self._socket.connect(at.removeprefix("unix:"))

    def __call__(self, **message: Any) -> dict[str, Any]:
        self._socket.send(json.dumps({"from": self._name, **message}).encode())
        answer: dict[str, Any] = json.loads(self._socket.recv(1 << 16))
        return answer

    def close(self) -> None:
        self._socket.close()


class Running:
    """`khz run` of a robot file, without the plug-in."""

    def __init__(self, khz: str, folder: pathlib.Path, text: str, name: str = "arm") -> None:
        self.at = f"unix:{folder / name}.sock"
        self.log = folder / f"{name}.tlog"
        self.file = folder / f"{name}.toml"
        self.file.write_text(text.replace("SOCKET", self.at.removeprefix("unix:")))
        words = [khz, "run", str(self.file), "--log", str(self.log), "--no-report"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
        until(lambda: pathlib.Path(self.at.removeprefix("unix:")).exists())

    def hand(self, name: str = "hand") -> Hand:
        return Hand(self.at, name)

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def run(khz: str, tmp_path: pathlib.Path) -> Iterator[Callable[..., Running]]:
    """Starts a robot that runs on its own, and ends it."""
    with contextlib.ExitStack() as all:

        def start(text: str = lenient(ARM), name: str = "arm") -> Running:
            running = Running(khz, tmp_path, text, name)
            all.callback(lambda: running.process.poll() is None and running.end())
            return running

        yield start


@pytest.fixture
def file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A robot file; what is started with it writes its log beside it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "robot.toml"
    path.write_text(lenient(ARM))
    return path


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """The plug-in waits for 2 s for an answer, for which a busy machine may stand still; here for a minute, or as long as a test sets."""

    def set_to(seconds: float) -> None:
        monkeypatch.setattr("lerobot_robot_kilohertz.connection._PATIENCE_S", seconds)

    set_to(60.0)
    return set_to


@pytest.fixture(autouse=True)
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LeRobot makes folders even for what has nothing to calibrate."""
    os.environ["HF_LEROBOT_HOME"] = str(tmp_path / "home")
