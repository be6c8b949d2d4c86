"""A month of three robots as 100 logs, of which everything that the queries ask for is known in advance.

Virtual time: a period is 2 ms, tick n is planned for 2·(n + 1) ms, devices and wire take no time, and a freeze that begins at a planned
start makes that tick late by its length.
"""

import json
import pathlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

MS = 1_000_000
PERIOD_MS = 2
SECONDS = 2.0
BEGIN = datetime(2026, 3, 1, 8, tzinfo=UTC)
CAUSES = ["preempted", "page_fault", "blocked", "unaccounted"]

DRY = 0.02
"""Dry friction of a joint, N·m."""
RISES_AT = 25
"""From this log of `arm` on, the dry friction of its joint 7 rises."""
RISE = 0.005
"""By so much with each log, N·m."""


@dataclass
class Log:
    """What is known of a log before it is made."""

    robot: str
    number: int
    begins: datetime
    joints: int
    ambient: int
    friction: float = DRY
    late: list[tuple[int, float, str]] = field(default_factory=list)
    """Number of a late tick, how late it is in ms, and why."""

    @property
    def name(self) -> str:
        return f"{self.robot}-{self.number:02}.tlog"


def month() -> list[Log]:
    """`arm` runs 40 times, `head-1` and `head-2` 30 times each, at equal intervals."""
    logs = []
    for robot, count, joints in [("arm", 40, 7), ("head-1", 30, 2), ("head-2", 30, 2)]:
        for number in range(count):
            begins = BEGIN + timedelta(hours=number * 31 * 24 // count)
            # It is one degree warmer with every third log.
            log = Log(robot, number, begins, joints, ambient=20 + number // 3)
            if robot == "arm":
                log.friction = DRY + RISE * max(number - RISES_AT + 1, 0)
            if robot != "head-2":
                # In log n: n modulo 4 late ticks, whose causes take turns.
                log.late = [(400 + 50 * k, 0.3 + 0.1 * k, CAUSES[(number + k) % 4]) for k in range(number % 4)]
            logs.append(log)
    return logs


def robot_file(log: Log) -> str:
    servo = '[[servo]]\nname = "joint_{n}"\nid = {n}\njoint = {{ inertia = 0.004, viscous = 0.01, coulomb = {dry} }}\n'
    dry = [log.friction if n == 7 else DRY for n in range(1, log.joints + 1)]
    return f"""
[robot]
name = "{log.robot}"
[loop]
rate_hz = {1000 / PERIOD_MS}
[emulation]
ambient_c = {log.ambient}
heat_rate = 0.0
[bus.main]
link = "emulated"
wire = "instant"
turnaround_us = 0.0
[servo_defaults]
bus = "main"
watchdog_s = 30.0
limits = {{ position = [-3.0, 3.0], velocity = 50.0, torque = 1.0 }}
device = {{ kp = 10.0, kd = 0.3 }}
{"".join(servo.format(n=n, dry=dry) for n, dry in enumerate(dry, 1))}
[controller]
name = "sine"
from_hz = 1.0
to_hz = 1.0
"""


def make(player: pathlib.Path, folder: pathlib.Path, log: Log, text: str | None = None) -> None:
    path = folder / log.name
    path.with_suffix(".toml").write_text(text or robot_file(log))
    script = {
        "duration_ns": round(SECONDS * 1000) * MS,
        "freezes": [((tick + 1) * PERIOD_MS * MS, round(late_ms * MS)) for tick, late_ms, _ in log.late],
        "causes": [cause for _, _, cause in log.late],
        "slow": [],
        "frames": [],
        "begins_s": round(log.begins.timestamp()),
    }
    path.with_suffix(".json").write_text(json.dumps(script))
    words = [str(player), f"{path.stem}.toml", f"{path.stem}.json", path.name]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=120)


def make_all(player: pathlib.Path, folder: pathlib.Path) -> list[Log]:
    logs = month()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda log: make(player, folder, log), logs))
    return logs
