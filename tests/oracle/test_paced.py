"""Runs paced by a sensor: `khz run` with an fdcanusb whose other end this test holds, and sends frames as a sensor would.

The sensor sends a known number of frames and falls silent before the run ends, so each of them is accounted for: it started
a tick, was skipped as an older one, or came too early."""

import fcntl
import os
import pathlib
import signal
import struct
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Callable

import pytest
import tlog
from judge import check_log, compare
from scenario import PERIOD_NS, Figures, Outside, freeze, nothing, result, robot, wait_for


PACE_ID = 0x7F00
FRAME = b"rcv 00007F00 01 E B F\r\n"
PATIENCE_US = 400
FRAMES = 300
PERIOD_S = PERIOD_NS / 1e9

# What the sensor sends: the pause before a frame in periods, and how many frames come at once.
Pattern = Callable[[int], tuple[float, int]]
PATTERNS: dict[str, Pattern] = {
    "on time": lambda n: (1.0, 1),
    "doubled": lambda n: (1.0, 2),
    "too early": lambda n: (0.6, 1),
    "slow": lambda n: (1.03, 1),
    "late": lambda n: (1.7 if n % 5 == 0 else 1.0, 1),
    "missing": lambda n: (2.0 if n % 4 == 0 else 1.0, 1),
    "silent for a while": lambda n: (100.0 if n == FRAMES // 2 else 1.0, 1),
}


class Sensor:
    """Sends frames at planned times; where it was late itself it does not catch up, as that would be frames too early."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern, self.sent = pattern, 0
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        # A run that came down early reads no more.
        os.set_blocking(self.master, False)
        self.path = os.ttyname(self.slave)

    def run(self) -> None:
        due = time.monotonic()
        for n in range(FRAMES):
            pause, at_once = self.pattern(n)
            due = max(due + pause * PERIOD_S, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0))
            try:
                os.write(self.master, FRAME * at_once)
            except BlockingIOError:
                return
            self.sent += at_once

    def unread(self) -> int:
        """Bytes that the run has not read yet."""
        (count,) = struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, bytes(4)))
        return int(count)

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


def paced(loop: str, path: str) -> str:
    text = robot(f'pace_bus = "sensor"\npace_id = {PACE_ID}\npace_patience_us = {PATIENCE_US}\n{loop}')
    return text + f'[bus.sensor]\nlink = "fdcanusb"\npath = "{path}"\nchecksum = false\n'


RUNS = [pytest.param("", name, nothing, id=name) for name in PATTERNS]
RUNS += [
    pytest.param(f'overrun = "{policy}"', "on time", freeze, id=f"{policy}, frozen")
    for policy in ["skip", "run_late_once", "re_phase", "stop"]
]


@pytest.mark.parametrize(("loop", "name", "outside"), RUNS)
def test_a_paced_run_says_what_its_log_says(
    khz: str, tmp_path: pathlib.Path, loop: str, name: str, outside: Outside
) -> None:
    reported, frames = run(khz, tmp_path, loop, PATTERNS[name], outside)
    log = tlog.read((tmp_path / "run.tlog").read_bytes())
    compare(reported, log, sensor_paced=True)
    check_log(log)
    ticks = log["tick"]
    by_frame = [tick for tick in ticks if not tick["without_frame"]]
    skipped = sum(tick["skipped"] for tick in by_frame)
    started = len(by_frame) + reported["early_frames"]
    # Where the loop itself lost periods, it is unknown which of them had a frame.
    assert started <= frames
    # A run that came down on a busy machine reads no more.
    if reported["ended_well"]:
        # A period that the loop lost may have had two of them.
        _, each = PATTERNS[name](1)
        assert frames <= started + each * skipped
        if outside is nothing and skipped == 0:
            assert frames == started
    if outside is freeze and reported["ended_well"]:
        # Four times 30 ms, 15 periods each; they were once reported as frames that came too early.
        assert reported["skipped"] >= 4 * 13
    for tick in ticks:
        late = PATIENCE_US * 1000 if tick["without_frame"] else 0
        # Frames that were read at once after the loop was away seem to have come then, up to a period after the plan.
        assert 0 <= tick["planned_ns"] - tick["due_ns"] - tick["skipped"] * PERIOD_NS - late < PERIOD_NS, tick
    truth(name, ticks, reported)


def run(
    khz: str, folder: pathlib.Path, loop: str, pattern: Pattern, outside: Outside
) -> tuple[Figures, int]:
    """The run's figures, and how many frames the sensor sent meanwhile."""
    sensor = Sensor(pattern)
    (folder / "robot.toml").write_text(paced(loop, sensor.path))
    words = [khz, "run", "robot.toml", "--log", "run.tlog", "--no-report", "--json"]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def meanwhile(process: "subprocess.Popen[str]", begun: pathlib.Path) -> None:
        wait_for(process, begun)
        disturbance = threading.Thread(target=outside, args=[process, begun])
        disturbance.start()
        sensor.run()
        disturbance.join()
        # The kernel passes the last frame on by then, and on a busy machine the loop reads it later.
        time.sleep(0.2)
        while sensor.unread() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)

    try:
        return result(process, meanwhile, folder / "run.tlog"), sensor.sent
    finally:
        sensor.close()


def truth(name: str, log: list[Figures], reported: Figures) -> None:
    """What is known of a sensor, from below: how it went while it sent."""
    numbers = [tick["number"] for tick in log if not tick["without_frame"]]
    meanwhile = log[numbers[0] : numbers[-1] + 1]
    without = sum(tick["without_frame"] for tick in meanwhile)
    if not reported["ended_well"]:
        # On a busy machine it may come down before the sensor has shown what it does.
        return
    if name == "doubled":
        # Of two that came together no more than one starts a tick.
        assert reported["early_frames"] > 0 and len(numbers) <= FRAMES
    if name == "too early":
        assert reported["early_frames"] > 0
    if name in ("late", "missing"):
        assert without > 0, reported
    if name == "silent for a while":
        # 200 ms without a frame, in which the loop keeps its rate.
        assert without + sum(tick["skipped"] for tick in meanwhile) >= 90
