"""`python -m kilohertz.campaign`: a campaign from a shell."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import time
from typing import TextIO

from . import run
from .errors import CampaignError
from .parts import Seeds
from .task import Task

#: Lines on the progress are at least this many seconds apart.
_EVERY_S = 5.0


def main() -> int:
    """0: everything held; 1: something did not, or has no result; 2: it cannot begin or go on; 130: interrupted."""
    words = _parser().parse_args()
    # A terminal that cannot show a character ends nothing.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
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
        _print(f"error: {error}", sys.stderr)
        return 2
    except KeyboardInterrupt:
        ending = "" if words.out is None else "; the same command goes on where this one ended"
        _print(f"\ninterrupted{ending}", sys.stderr)
        return 130
    _print(str(done), sys.stdout)
    return 0 if done.held else 1


def _print(text: str, stream: TextIO) -> None:
    """Prints it. Who has read enough (`| head`), or has a full disk, has the results and the exit code all the same."""
    try:
        print(text, file=stream, flush=True)
    except OSError:
        # Otherwise Python tries once more at its end, and changes the exit code.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


def _here(words: argparse.Namespace) -> int:
    """Without a folder: one after the other in this shell, what the results of each printed. For a seed that failed."""
    task = Task.of(words.robot, words.episodes, words.timeout, words.khz)
    seeds = Seeds.of(words.seed, words.scenarios)
    verdicts = set()
    for row in task.each(seeds.first, seeds.last, show=True):
        _print("".join(f"{name}: {value}\n" for name, value in row.items() if value is not None), sys.stdout)
        verdicts.add(row["verdict"])
    return 0 if verdicts == {"held"} else 1


class _Notes:
    """Prints what is worth a line, and the progress now and then."""

    def __init__(self) -> None:
        self._shown = time.monotonic()

    def show(self, line: str) -> None:
        is_progress = line.endswith(" scenarios")
        if is_progress and time.monotonic() < self._shown + _EVERY_S:
            return
        self._shown = time.monotonic()
        _print(line, sys.stderr)


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
