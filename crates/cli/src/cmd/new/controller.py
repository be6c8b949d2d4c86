"""A controller to begin with: every joint sways a little around where it was found.

python controller.py [SECONDS]

Ctrl-C brings the robot down gently.
"""

import math
import sys

import kilohertz

SWAY = 0.05
"""How far, rad."""
SPEED = 2.0
"""How fast, rad/s."""


class Sway:
    def start(self, state: kilohertz.State) -> None:
        """Once, when the robot is armed."""
        self.found = state.position.copy()
        self.began = state.time

    def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
        """In every tick. The limits of robot.toml hold whatever is commanded."""
        command.position = self.found + SWAY * math.sin(SPEED * (state.time - self.began))


def main() -> None:
    duration = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    summary = kilohertz.Robot("robot.toml").run(Sway(), duration=duration)
    print(f"{summary.rate_hz:.1f} Hz, {summary.missed_replies} missed replies; log: {summary.log}")


if __name__ == "__main__":
    main()
