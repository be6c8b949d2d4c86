"""`python -m kilohertz.campaign`: a campaign from a shell."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time

from . import run
from .errors import CampaignError
from .parts import Seeds
from .task import Task

#: Lines on the progress are at least this many seconds apart.
_EVERY_S = 5.0


def main() -> int:
    """0: everything held; 1: something did not, or has no result; 2: it cannot begin or go on; 130: interrupted."""
    words = _parser().parse_args()
    # As Ctrl-C: what Ray has in the folder for temporary files is to be removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if words.out is None:
            return _here(words)
        done = run(
            words.robot,
            out=words.out,
            episodes=words.episodes,
            scenarios=words.scenarios,
            seed=words.seed,
            chunk=words.chunk,
            workers=words.workers,
            address=words.address,
            timeout=words.timeout,
            khz=words.khz,
            notify=_Notes().show,
        )
    except (CampaignError, ImportError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on where this one ended", file=sys.stderr)
        return 130
    # Who has read enough (`| head`) has the exit code all the same.
    with contextlib.suppress(BrokenPipeError):
        print(done, flush=True)
    return 0 if done.held else 1


def _here(words: argparse.Namespace) -> int:
    """Without a folder: one after the other in this shell, what each has to say printed. For a seed that failed."""
    task = Task.of(words.robot, words.episodes, words.timeout, words.khz)
    seeds = Seeds.of(words.seed, words.scenarios)
    rows = task.rows(seeds.first, seeds.last, show=True)
    for row in rows:
        print(*(f"{name}: {value}" for name, value in row.items() if value is not None), sep="\n", end="\n\n")
    return 0 if all(row["verdict"] == "held" for row in rows) else 1


class _Notes:
    """Prints what is worth a line, and the progress now and then."""

    def __init__(self) -> None:
        self._shown = time.monotonic()

    def show(self, line: str) -> None:
        is_progress = line.endswith(" scenarios")
        if is_progress and time.monotonic() < self._shown + _EVERY_S:
            return
        self._shown = time.monotonic()
        print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kilohertz.campaign",
        description="Thousands of drill scenarios or episodes on Ray, their results as a Parquet dataset.",
        epilog="Exit codes: 0 everything held, 1 something did not or has no result, 2 it cannot begin or go on, 130 interrupted.",
    )
    parser.add_argument("robot", nargs="?", help="the robot file; without it, the built-in robots of `khz drill campaign`")
    parser.add_argument("--out", metavar="DIR", help="folder of the dataset, continued if it is there; without it, the seeds run here and are printed")
    parser.add_argument("--episodes", metavar="FILE.py:NAME", help="a function from the robot file's path to an Env and a policy: episodes instead of drill scenarios")
    parser.add_argument("--scenarios", type=int, default=1000, metavar="N", help="how many seeds (1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed (1)")
    parser.add_argument("--chunk", type=int, default=50, metavar="N", help="seeds of a part of the dataset (50)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes on this computer (one per CPU)")
    parser.add_argument("--address", metavar="ADDRESS", help="a running Ray cluster, `auto` for that of this computer, instead of one of our own")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds that one scenario may take (60)")
    parser.add_argument("--khz", metavar="PATH", help="the command khz, if it is neither beside this Python nor in PATH")
    return parser


if __name__ == "__main__":
    sys.exit(main())
