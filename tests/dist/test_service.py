"""`khz@.service` as systemd runs it: a manager of the settings its file has, without systemd.

What this cannot show, and no test here does: DynamicUser, StateDirectory, and the limits that systemd sets.
"""

import collections
import os
import pathlib
import select
import shlex
import signal
import socket
import subprocess
import time

import pytest
from release import ROOT, Find, run
from robots import lenient


UNIT = ROOT / "packaging/khz@.service"


class Manager:
    """What systemd does with a `Type=notify` service that has a watchdog."""

    def __init__(self, program: pathlib.Path, robot: pathlib.Path, folder: pathlib.Path) -> None:
        settings = collections.defaultdict(list)
        for line in UNIT.read_text().splitlines():
            if "=" in line and not line.startswith("#"):
                key, value = line.split("=", 1)
                settings[key].append(value)
        # A robot that went down stays down.
        assert settings["Type"] == ["notify"] and settings["Restart"] == ["no"]
        self.watchdog_s = float(settings["WatchdogSec"][0])
        self.stop_signal = signal.Signals[settings["KillSignal"][0]]
        command = shlex.split(settings["ExecStart"][0])
        assert command[0] == "/usr/bin/khz" and command[-1] == "/etc/kilohertz/%i.toml"
        self.command = [str(program), *command[1:-1], str(robot)]
        self.folder = folder
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")}
        self.process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def message(self, patience_s: float) -> "str | None":
        """The next one, if it comes in time."""
        ready, _, _ = select.select([self.socket], [], [], patience_s)
        return self.socket.recv(4096).decode() if ready else None

    def until(self, word: str) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if word in (self.message(1.0) or "").splitlines():
                return
        pytest.fail(f"{word} was not sent")

    def drain(self) -> None:
        while self.message(0.0):
            pass

    def watch(self) -> int:
        """Watches until the process ends, killing it when it does not feed; how it ended."""
        while self.process.poll() is None:
            if self.message(self.watchdog_s) is None and self.process.poll() is None:
                self.process.send_signal(signal.SIGABRT)
                # A stopped process takes no signal but this.
                self.process.send_signal(signal.SIGCONT)
                self.process.wait(60)
        return self.process.returncode


def pan_tilt(folder: pathlib.Path, supervisor: str = "") -> pathlib.Path:
    """The package's robot, which a busy machine does not bring down."""
    text = lenient((folder / "package/usr/share/doc/khz/robots/pan_tilt.toml").read_text())
    robot = folder / "robot.toml"
    robot.write_text(text.replace("[supervisor]\n", f"[supervisor]\n{supervisor}\n"))
    return robot


@pytest.fixture
def manager(made: Find, tmp_path: pathlib.Path) -> "collections.abc.Iterator[Manager]":
    run("dpkg-deb", "-x", made("khz_*_amd64.deb"), tmp_path / "package")
    manager = Manager(tmp_path / "package/usr/bin/khz", pan_tilt(tmp_path), tmp_path)
    yield manager
    manager.process.kill()
    manager.process.wait()


def test_it_is_ready_when_the_loop_runs_and_is_fed_from_then_on(manager: Manager) -> None:
    manager.until("READY=1")
    for _ in range(5):
        manager.until("WATCHDOG=1")
    manager.process.send_signal(manager.stop_signal)
    manager.until("STOPPING=1")
    assert manager.process.wait(60) == 0


def test_killed_and_started_again_a_robot_armed_by_operators_waits(made: Find, tmp_path: pathlib.Path) -> None:
    """The way to `Restart=on-failure` that docs/install.md describes."""
    run("dpkg-deb", "-x", made("khz_*_amd64.deb"), tmp_path / "package")
    manager = Manager(tmp_path / "package/usr/bin/khz", pan_tilt(tmp_path, 'arming = "operator"'), tmp_path)
    for _ in range(2):
        # The phase is reported when it changes: it stays in idle.
        manager.until("STATUS=idle")
        sent = [manager.message(60.0) or "" for _ in range(10)]
        # A reply that is missed takes it back to the start-up for a few ticks.
        assert set(sent) <= {"WATCHDOG=1", "STATUS=init", "STATUS=idle"} and "WATCHDOG=1" in sent, sent
        manager.process.kill()
        assert manager.watch() == -signal.SIGKILL
        manager.drain()
        manager.start()
    manager.process.kill()
    manager.process.wait()


def test_frozen_it_is_not_fed_and_is_killed(manager: Manager) -> None:
    manager.until("READY=1")
    manager.process.send_signal(signal.SIGSTOP)
    assert manager.watch() == -signal.SIGABRT


def test_bad_input_stays_down(made: Find, tmp_path: pathlib.Path) -> None:
    run("dpkg-deb", "-x", made("khz_*_amd64.deb"), tmp_path / "package")
    robot = tmp_path / "robot.toml"
    robot.write_text("[robot]\nname = 3\n")
    manager = Manager(tmp_path / "package/usr/bin/khz", robot, tmp_path)
    assert manager.process.wait(60) == 2
    assert manager.message(0.0) is None
