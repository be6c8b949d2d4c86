"""What a run changes in its Python process: the signals that end it, the garbage collector and the switch interval."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias


_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | signal.Handlers


class _Signals:
    """While robots run, SIGTERM and SIGHUP raise SystemExit on the main thread, where Python itself would be ended at once
    and leave the servos damping. Handlers of your own stay, and ignored signals stay ignored."""

    def __init__(self) -> None:
        self._runs = 0

    def begin(self) -> None:
        """A run begins."""
        self._runs += 1
        self._replace(signal.SIG_DFL, self._leave)

    def end(self) -> None:
        """A run is over."""
        self._runs -= 1
        if self._runs == 0:
            self._replace(self._leave, signal.SIG_DFL)

    @staticmethod
    def _leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    @staticmethod
    def _replace(old: _Handler, new: _Handler) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Python allows it nowhere else.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == old:
                signal.signal(number, new)


_signals = _Signals()


@contextmanager
def _ends_gently() -> Iterator[None]:
    """Signals that end a program bring the robot down first."""
    _signals.begin()
    try:
        yield
    finally:
        _signals.end()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection, and other Python threads let go of the interpreter at once."""
    collecting, interval = gc.isenabled(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if collecting:
            gc.enable()
