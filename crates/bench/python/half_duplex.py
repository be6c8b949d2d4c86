"""The beginning of each client: what it is given, and how its cycles are measured, once for each line it reads."""

import sys
import time

path, servos, turn = sys.argv[1], list(range(1, int(sys.argv[2]) + 1)), int(sys.argv[3])


def measure(cycle):
    """A cycle returns what it has of each servo."""
    for _ in sys.stdin:
        took = []
        for _ in range(turn):
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            values = cycle()
            took.append(f"{time.perf_counter_ns() - wall} {time.thread_time_ns() - cpu}")
            assert len(values) == len(servos)
        print(",".join(took), flush=True)
