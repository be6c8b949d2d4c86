"""A robot's full control cycle a thousand times a second, with the controller in Python.

Quantities are in SI units: rad, rad/s, N·m, V, °C, seconds.
"""

from ._native import ClosedError, KilohertzError, LogError
from .log import Log, Record, open_log

__all__ = ["ClosedError", "KilohertzError", "Log", "LogError", "Record", "open_log"]
