"""The scenarios of a chunk in a process of their own, which may hang or crash without a seed being lost.

The process prints one line of JSON to begin with, and one per seed, in their order. When it ends before its last seed, the one after
its last line is to blame, or what killed it: so that seed is tried a second time before its row says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from .errors import CampaignError

Line = dict[str, Any]
Command = Callable[[int, int], list[str]]

#: Dies with the worker that started it, even if that is killed, and blocks no signals.
_LEASH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
#: A program takes this much longer for its first line than for a scenario: it starts, and tries the robot.
_START_S = 60.0
#: A process that has closed its output ends within this time, unless something in it hangs.
_END_S = 5.0
#: The end of what a process wrote on stderr, as far as it is repeated.
_STDERR_BYTES = 2000


class Ended(Exception):
    """A process ended, or was ended, before its last line."""

    def __init__(self, verdict: str, what: str) -> None:
        super().__init__(what)
        self.verdict, self.what = verdict, what


def lines(command: Command, first: int, last: int, timeout: float, show: bool = False) -> Iterator[Line]:
    """The lines of the seeds `first` to `last`, each exactly once. What hangs or crashes twice has a line `{"seed": …, "verdict":
    "timeout" or "crashed", "what": …}`. Raises CampaignError if the program does not begin."""
    seed, tried = first, first - 1
    while seed <= last:
        with Child(command(seed, last - seed + 1), show) as child:
            child.head(timeout + _START_S)
            try:
                while seed <= last:
                    line = child.line(timeout)
                    if line.get("seed") != seed:
                        raise CampaignError(f"{child.name}: a result of seed {line.get('seed')} instead of {seed}")
                    yield line
                    seed += 1
            except Ended as ended:
                if tried == seed:
                    yield {"seed": seed, "verdict": ended.verdict, "what": ended.what}
                    seed += 1
                else:
                    tried = seed


class Child:
    """A process that prints lines of JSON. Leaving the `with` kills it and what it started."""

    def __init__(self, command: list[str], show: bool = False) -> None:
        self.name, self._show = os.path.basename(command[0]), show
        self._buffer, self._message = b"", b""
        # Results must not depend on how many CPUs a computer has, nor on the order of a set.
        own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **own},
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._stdout, self._stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        self._open = [self._stdout, self._stderr]

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def head(self, timeout: float) -> Line:
        """The line before the seeds. Raises CampaignError, with what the program wrote, if there is none."""
        try:
            head = self.line(timeout)
        except Ended as ended:
            raise CampaignError(f"{self.name} does not begin: {ended.what}{self._last_words()}") from None
        if head.get("format") != "khz-campaign" or head.get("version") != 1:
            raise CampaignError(f"{self.name} does not print the results of a campaign that this version reads, but {head}")
        return head

    def line(self, timeout: float) -> Line:
        """The next line. Raises Ended if there is none within `timeout` s."""
        until = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            if left < 0 or not self._read(left):
                raise Ended("timeout", f"no result after {timeout:g} s")
            if self._stdout not in self._open and b"\n" not in self._buffer:
                raise Ended("crashed", self._how())
        text, self._buffer = self._buffer.split(b"\n", 1)
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            raise CampaignError(f"{self.name} printed what is no result: {text[:200]!r}")
        return line

    def _read(self, timeout: float) -> bool:
        """Takes what has been printed; false if there is nothing in time."""
        ready, _, _ = select.select(self._open, [], [], timeout)
        for pipe in ready:
            data = os.read(pipe, 1 << 16)
            if not data:
                self._open.remove(pipe)
            elif pipe == self._stdout:
                self._buffer += data
            else:
                if self._show:
                    with contextlib.suppress(OSError):
                        sys.stderr.write(data.decode(errors="replace"))
                self._message = (self._message + data)[-_STDERR_BYTES:]
        return bool(ready)

    def _how(self) -> str:
        """How the process ended. Without its last words: they may have addresses in them, and a seed has one result."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "closed its output"
        if code >= 0:
            return f"ended with code {code}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
        return f"killed by signal {-code}"

    def _last_words(self) -> str:
        while self._stderr in self._open and self._read(0):
            pass
        message = self._message.decode(errors="replace").strip()
        return f": {message}" if message else ""
