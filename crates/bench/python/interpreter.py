"""A controller in Python beside a thread that holds the interpreter now and then: `interpreter.py ROBOT.toml SECONDS`.

Prints the cause of each late tick that waited for the interpreter, a line each. Started by `cargo xtask bench attribution`.
"""

import json
import sys
import threading
import time

import kilohertz

HELD_NS = 3_000_000


class Holder(threading.Thread):
    """Calls something for 3 ms in every 100 that does not let go of the interpreter until it returns; notes from when to when.

    A thread of Python's own bytecode would let go after a tenth of a millisecond, as `Robot.run` sees to."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()
        self.calls_ns: list[tuple[int, int]] = []
        begun_ns = time.monotonic_ns()
        sum(range(1_000_000))
        self.count = 1_000_000 * HELD_NS // (time.monotonic_ns() - begun_ns)

    def run(self) -> None:
        while not self.over.wait(0.097):
            begun_ns = time.monotonic_ns()
            sum(range(self.count))
            # A thread that waits gets the interpreter as soon as the call returns, before this thread looks at the clock.
            self.calls_ns.append((begun_ns, time.monotonic_ns()))


def main() -> None:
    robot, seconds = sys.argv[1], float(sys.argv[2])
    entered_ns: dict[int, int] = {}

    def update(state: kilohertz.State, command: kilohertz.Command) -> None:
        entered_ns[state.tick] = time.monotonic_ns()

    holder = Holder()
    holder.start()
    summary = kilohertz.Robot(robot).run(update, duration=seconds, record=False)
    holder.over.set()
    holder.join()
    for tick in summary["late"]["worst"]:
        # A tick in which the controller did not run waited for nothing of Python's.
        entered = entered_ns.get(tick["tick"], 0)
        if any(begun_ns < entered < over_ns for begun_ns, over_ns in holder.calls_ns):
            print(json.dumps(tick["cause"]))


main()
