"""A quadruped stands up, at 1 kHz, with the controller in Python; then its log shows how it went.

python stand.py [LOG.tlog]
"""

import sys

import numpy as np

import kilohertz

LINK_M = 0.15
"""Length of the thigh, and of the shin."""
STAND_M = 0.22
"""Height of the hip over the foot at the end."""
RISE_S = 2.0


class Stand:
    """Raises the body in a smooth curve from wherever the legs are. Legs are groups of three: hip, thigh, knee."""

    def start(self, state: kilohertz.State) -> None:
        self.began = state.time
        self.found = state.position.copy()
        # Two equal links: the thigh leans by half of what the knee bends.
        thigh = np.arccos(STAND_M / (2 * LINK_M))
        self.target = np.tile([0.0, thigh, -2 * thigh], len(self.found) // 3)

    def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
        part = min((state.time - self.began) / RISE_S, 1.0)
        smooth = part * part * (3 - 2 * part)
        command.position = self.found + smooth * (self.target - self.found)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "stand.tlog"
    robot = kilohertz.Robot.quadruped()
    try:
        summary = robot.run(Stand(), duration=3.0, log=path)
    except kilohertz.RobotError as error:
        # A busy computer is reason enough to bring a robot down; the log shows it all the same.
        print(f"brought down: {error}")
        summary = error.summary
    print(f"{summary.ticks} ticks at {summary.rate_hz:.2f} Hz, {summary.missed_replies} replies missed")
    for name in ("python_ns", "overhead_ns", "cycle_ns", "wake_latency_ns"):
        print(f"{name:16} p50 {summary[name]['p50'] / 1000:7.1f} µs   p99 {summary[name]['p99'] / 1000:7.1f} µs")
    print(f"log: {summary.log}")


if __name__ == "__main__":
    main()
