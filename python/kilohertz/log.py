"""Logs as NumPy arrays, without loading the rest of the file.

>>> with kilohertz.open_log("run.tlog") as log:            # doctest: +SKIP
...     servo = log["servo"]
...     time, position = servo.time, servo["*.position"]   # (n,), (n, servos)
...     squat = servo[2.0:3.5]                              # seconds since the log's start
...     frame = squat.to_pandas()
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars

Array = npt.NDArray[Any]


def open_log(path: str | os.PathLike[str]) -> Log:
    """Opens a log. Raises OSError if the file cannot be read, LogError if it is no log."""
    return Log(path)


class Log:
    """An open log: a mapping of record names to records. Close it, or use it in a `with` statement."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._native = _native.Log(os.fspath(path))
        self._start_us: int | None = None

    def __getitem__(self, name: str) -> Record:
        """The record of this name; KeyError tells which there are."""
        self._native.fields(name)
        return Record(self, name)

    def __iter__(self) -> Any:
        return iter(self._native.records)

    def __len__(self) -> int:
        return len(self._native.records)

    def __contains__(self, name: object) -> bool:
        return name in self._native.records

    def keys(self) -> list[str]:
        """Names of the records."""
        return self._native.records

    @property
    def finished(self) -> bool:
        """Whether the log was finished properly. One cut off is readable to its last whole block."""
        return self._native.finished

    def close(self) -> None:
        """Closes the file. Records taken from the log cannot be read afterwards."""
        self._native.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _at_us(self, seconds: float | None) -> int | None:
        """Seconds since the first sample that has a time, as µs since the Unix epoch."""
        if seconds is None:
            return None
        if self._start_us is None:
            self._start_us = self._native.start_us() or 0
        return self._start_us + round(seconds * 1e6)


class Record:
    """One record of a log, or a slice of its time. Every access reads the file; nothing is kept. Where the log is damaged
    it gives what is sound before and behind, and a RuntimeWarning."""

    def __init__(self, log: Log, name: str, start_us: int | None = None, stop_us: int | None = None) -> None:
        self._log = log
        self._start_us = start_us
        self._stop_us = stop_us
        self.name = name
        """The record's name."""

    @property
    def fields(self) -> list[str]:
        """Paths of the fields. A path through an array means that field of every item; with a number, of one:
        `joints.position`, `joints.3.position`. A `*` means every field of an object: `*.position`."""
        return self._log._native.fields(self.name)

    def __getitem__(self, key: str | slice) -> Any:
        """With a path: that field's values, (n,) or (n, k) if a sample holds k of them, a list of n arrays if their
        number changes. Texts, bytes, maps, unions of different kinds and optional values that are no numbers are
        lists of Python values. Optional numbers are float64 with NaN, or, with integers beyond 2**53, a list.
        With a slice `a:b`: the same record from a to b seconds since the log's start."""
        if isinstance(key, slice):
            if key.step is not None:
                raise ValueError("a slice of time has no step: take every n-th value of the array instead")
            start, stop = self._log._at_us(key.start), self._log._at_us(key.stop)
            return Record(self._log, self.name, _later(self._start_us, start), _sooner(self._stop_us, stop))
        return self._columns([key])[1][0]

    @property
    def time_us(self) -> npt.NDArray[np.int64]:
        """Times of the samples, µs since the Unix epoch."""
        return self._columns([])[0]

    @property
    def time(self) -> npt.NDArray[np.float64]:
        """Times of the samples, seconds since the log's first sample."""
        since_start = self.time_us - (self._log._at_us(0.0) or 0)
        return since_start.astype(np.float64) * 1e-6

    def arrays(self, *fields: str) -> dict[str, Array]:
        """Several fields (all, if none is named) in one pass over the file, and their times as `time_us`."""
        names = list(fields) or self.fields
        times, columns = self._columns(names)
        # A field called `time_us` has a number behind its name, as in exported tables.
        names = ["time_us_2" if name == "time_us" else name for name in names]
        return {"time_us": times, **dict(zip(names, columns, strict=True))}

    def names(self, field: str) -> dict[int, str]:
        """What the values of an enum field are called; empty for other fields."""
        return dict(self._log._native.names(self.name, field))

    @property
    def units(self) -> dict[str, str]:
        """Units of the fields that have one: `{"hip.position": "rad", …}`. In a data frame of pandas: `frame.attrs["units"]`."""
        return dict(self._log._native.units(self.name))

    def to_pandas(self, *fields: str) -> pandas.DataFrame:
        """A data frame with the time as index; fields of several values become one column each."""
        import pandas

        columns = self._flat(fields)
        index = pandas.DatetimeIndex(pandas.to_datetime(columns.pop("time_us"), unit="us", utc=True), name="time")
        # Left to itself, pandas makes float64 of large integers beside None and costs them digits.
        exact = {name: pandas.Series(values, index, object) for name, values in columns.items() if _has_integers(values)}
        frame = pandas.DataFrame({**columns, **exact}, index=index)
        frame.attrs["units"] = self.units
        return frame

    def to_polars(self, *fields: str) -> polars.DataFrame:
        """A data frame with the time in its first column; fields of several values become one column each."""
        import polars

        columns = self._flat(fields)
        time = polars.Series("time", columns.pop("time_us")).cast(polars.Datetime("us", "UTC"))
        # A field called `time` has a number behind its name, as in exported tables.
        renamed = {"time_2" if name == "time" else name: _series(values) for name, values in columns.items()}
        return polars.DataFrame({"time": time, **renamed})

    def _flat(self, fields: tuple[str, ...]) -> dict[str, Array]:
        flat: dict[str, Array] = {}
        for name, values in self.arrays(*fields).items():
            if isinstance(values, np.ndarray) and values.ndim == 2:
                flat.update({f"{name}.{index}": values[:, index] for index in range(values.shape[1])})
            else:
                flat[name] = values
        return flat

    def _columns(self, fields: list[str]) -> tuple[npt.NDArray[np.int64], list[Any]]:
        return self._log._native.columns(self.name, fields, self._start_us, self._stop_us)


def _later(a: int | None, b: int | None) -> int | None:
    return max((each for each in (a, b) if each is not None), default=None)


def _sooner(a: int | None, b: int | None) -> int | None:
    return min((each for each in (a, b) if each is not None), default=None)


def _has_integers(values: Any) -> bool:
    return isinstance(values, list) and any(isinstance(value, int) for value in values)


def _series(values: Any) -> polars.Series:
    import polars

    try:
        return polars.Series(values)
    except (TypeError, OverflowError):
        # Values of different kinds, which polars only keeps as Python objects.
        return polars.Series(values, dtype=polars.Object)
