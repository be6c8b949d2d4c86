"""Runs to be judged: the robot they are of, how they are started, and what may happen to their process."""

import json
import pathlib
import signal
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]
Outside = Callable[["subprocess.Popen[str]", pathlib.Path], None]

RATE_HZ = 500.0
PERIOD_NS = 2_000_000
LATE_US = 150


SINE = 'name = "sine"\nfrom_hz = 1.0\nto_hz = 2.0'


def robot(loop: str = "", bus: str = "", controller: str = SINE, link: str = "emulated", rate_hz: float = RATE_HZ) -> str:
    """Two servos on one bus, that nothing brings down but the scenario's faults."""
    return textwrap.dedent(f"""
        [robot]
        name = "oracle"
        [loop]
        rate_hz = {rate_hz}
        {f"late_us = {LATE_US}" if rate_hz == RATE_HZ else ""}
        {textwrap.indent(loop, " " * 8).strip()}
        [bus.main]
        link = "{link}"
        {textwrap.indent(bus, " " * 8).strip()}
        [servo_defaults]
        bus = "main"
        watchdog_s = 30.0
        limits = {{ position = [-3.0, 3.0], velocity = 50.0, torque = 1.0 }}
        joint = {{ inertia = 0.004, viscous = 0.01, coulomb = 0.02 }}
        device = {{ kp = 10.0, kd = 0.3 }}
        [[servo]]
        name = "pan"
        id = 1
        [[servo]]
        name = "tilt"
        id = 2
        [controller]
        {textwrap.indent(controller, " " * 8).strip()}
        [supervisor]
        missed_replies = 100000
        stale_ms = 100000
        overruns = 100000
        controller_slow = 100000
        velocity_factor = 100
        answer_s = 60
        damping_s = 0.4
        [log]
        ring_mib = 1
        """)


def nothing(process: "subprocess.Popen[str]", begun: pathlib.Path) -> None:
    """No disturbance from outside."""


def wait_for(process: "subprocess.Popen[str]", begun: pathlib.Path) -> None:
    """Until the run writes its log, or a while if it writes none before its end."""
    end = time.monotonic() + (20 if begun.suffix == ".tlog" else 0.3)
    while time.monotonic() < end and process.poll() is None:
        if begun.exists() and begun.stat().st_size > 30_000:
            break
        time.sleep(0.01)


def freeze(process: "subprocess.Popen[str]", begun: pathlib.Path) -> None:
    """Stops the whole process four times for 30 ms."""
    wait_for(process, begun)
    for _ in range(4):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.03)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)


def start(khz: str, folder: pathlib.Path, text: str, duration_s: float = 1.1) -> "subprocess.Popen[str]":
    (folder / "robot.toml").write_text(text)
    words = [khz, "run", "robot.toml", "--duration", f"{duration_s}s", "--log", "run.tlog", "--no-report", "--json"]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: "subprocess.Popen[str]", outside: Outside, begun: pathlib.Path) -> Figures:
    disturbance = threading.Thread(target=outside, args=[process, begun])
    disturbance.start()
    out, err = process.communicate(timeout=300)
    disturbance.join()
    assert process.returncode in (0, 1), err
    return json.loads(out)
