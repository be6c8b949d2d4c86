"""Logs as NumPy arrays, without loading the rest of the file.

>>> with kilohertz.open_log("run.tlog") as log:            # doctest: +SKIP
...     servo = log["servo"]
...     time, position = servo.time, servo["*.position"]   # (n,), (n, servos)
...     squat = servo[2.0:3.5]                              # seconds since the log's start
...     frame = squat.to_pandas()
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._notebook import table

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
        self._path = os.fspath(path)
        self._start_us: int | None = None

    def __repr__(self) -> str:
        return f"<Log {self._path}: {', '.join(self.keys())}>"

    def _repr_html_(self) -> str:
        rows = ((name, ", ".join(_some(self[name].fields))) for name in self.keys())
        note = "" if self.finished else "This log was not finished; it is readable to its last whole block."
        return table(self._path, rows, ("record", "fields"), note)

    def __getitem__(self, name: str) -> Record:
        """The record of this name; KeyError lists which there are."""
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
    """One record of a log, or a slice of its time. Every access reads the file; nothing is kept. Where the log is damaged,
    or a sample does not fit its schema, it gives what is sound before and behind, and a RuntimeWarning."""

    def __init__(self, log: Log, name: str, start_us: int | None = None, stop_us: int | None = None) -> None:
        self._log = log
        self._start_us = start_us
        self._stop_us = stop_us
        self.name = name
        """The record's name."""

    def __repr__(self) -> str:
        return f"<Record {self.name}: {', '.join(_some(self.fields))}>"

    def _repr_html_(self) -> str:
        times, units = self.time, self.units
        known = times[~np.isnan(times)]
        span = f", {known.min():.3f} to {known.max():.3f} s" if len(known) else ""
        rows = ((field, units.get(field, "")) for field in self.fields)
        return table(f"{self.name}: {len(times):,} samples{span}", rows, ("field", "unit"))

    @property
    def fields(self) -> list[str]:
        """Paths of the fields. A path through an array means that field of every item; with a number, of one:
        `joints.position`, `joints.3.position`. A `*` means every field of an object: `*.position`. A path that is listed
        here means this field and no other: of two with the same name or path the second has a number behind it, `x_2`."""
        return self._log._native.fields(self.name)

    def __getitem__(self, key: str | slice) -> Any:
        """With a path: that field's values, one entry for each of n samples.

        Numbers are an array: (n,), (n, k) if each sample holds k of them, or a list of n arrays if their number changes.
        An enum is read as its integer (`names`), timestamps and durations are µs. Numbers that may be absent (optional,
        or the item of an array that may be shorter) or are of several kinds are float64 with NaN, or, if one is an
        integer beyond 2**53, a list with None.

        All else is a list of n Python values: texts, bytes, maps, unions with one of these or with an array, and arrays
        of them or of arrays whose length may change. A text that is not UTF-8 is bytes.

        With a slice `a:b`: the same record from a to b seconds since the log's start. A sample without a time is in none."""
        if isinstance(key, slice):
            if key.step is not None:
                raise ValueError("a slice of time has no step: take every n-th value of the array instead")
            start, stop = self._log._at_us(key.start), self._log._at_us(key.stop)
            return Record(self._log, self.name, _later(self._start_us, start), _sooner(self._stop_us, stop))
        return self._columns([key])[1][0]

    @property
    def time_us(self) -> npt.NDArray[np.int64]:
        """Times of the samples, µs since the Unix epoch. Where a sample has none it is the least int64, NumPy's NaT:
        `time_us.view("datetime64[us]")`."""
        return self._columns([])[0]

    @property
    def time(self) -> npt.NDArray[np.float64]:
        """Times of the samples, seconds since the log's first sample; NaN where a sample has none."""
        times, start = self.time_us, self._log._at_us(0.0) or 0
        since = (times - start).astype(np.float64)
        rough = times.astype(np.float64) - start
        # A difference too large for int64 has wrapped around.
        since = np.where(np.abs(rough) < 2.0**63, since, rough) * 1e-6
        return np.where(times == _NO_TIME, np.nan, since)

    def arrays(self, *fields: str) -> dict[str, Array]:
        """Several fields (all, if none is named) in one pass over the file, and their times as `time_us`."""
        names = list(fields) or self.fields
        times, columns = self._columns(names)
        # A field called `time_us` has a number behind its name, as in exported tables.
        taken = {*names, *self.fields}
        names = [_free(name, taken) if name == "time_us" else name for name in names]
        return {"time_us": times, **dict(zip(names, columns, strict=True))}

    def names(self, field: str) -> dict[int, str]:
        """What the values of an enum field are called; empty for other fields."""
        return dict(self._log._native.names(self.name, field))

    @property
    def units(self) -> dict[str, str]:
        """Units of the fields that have one: `{"hip.position": "rad", …}`. In a data frame of pandas: `frame.attrs["units"]`."""
        return dict(self._log._native.units(self.name))

    def to_pandas(self, *fields: str) -> pandas.DataFrame:
        """A data frame with the time as index. A field of several numbers becomes a column for each, `rate.0`; where the
        number changes, one column of lists. Names of fields are kept; what would have one of them gets a number behind it."""
        import pandas

        columns = self._flat(fields)
        index = pandas.DatetimeIndex(pandas.to_datetime(columns.pop("time_us"), unit="us", utc=True), name="time")
        # Left to itself, pandas makes float64 of large integers beside None and costs them digits.
        exact = {name: pandas.Series(values, index, object) for name, values in columns.items() if _has_integers(values)}
        frame = pandas.DataFrame({**columns, **exact}, index=index)
        frame.attrs["units"] = self.units
        return frame

    def to_polars(self, *fields: str) -> polars.DataFrame:
        """As `to_pandas`, with the time in its first column, null where a sample has none. A column without any value,
        such as texts of no sample, has no type (`Null`); one of several types is of Python objects; maps are structs, and
        null stands where a map lacks a key of others."""
        import polars

        columns = self._flat(fields)
        time = polars.Series(columns.pop("time_us").view("datetime64[us]")).dt.replace_time_zone("UTC")
        # A field called `time` has a number behind its name, as in exported tables.
        taken = {*columns, *self.fields}
        frame = {_free(name, taken) if name == "time" else name: _series(values) for name, values in columns.items()}
        return polars.DataFrame({"time": time, **frame})

    def _flat(self, fields: tuple[str, ...]) -> dict[str, Array]:
        arrays = self.arrays(*fields)
        flat: dict[str, Any] = {}
        taken = {*arrays, *self.fields}
        for name, values in arrays.items():
            if not isinstance(values, np.ndarray) or values.ndim == 1:
                flat[name] = values
            elif values.shape[1] == 0:
                flat[name] = [[]] * len(values)
            else:
                for index in range(values.shape[1]):
                    column = _free(f"{name}.{index}", taken)
                    taken.add(column)
                    flat[column] = values[:, index]
        return flat

    def _columns(self, fields: list[str]) -> tuple[npt.NDArray[np.int64], list[Any]]:
        return self._log._native.columns(self.name, fields, self._start_us, self._stop_us)


#: Fields that one line names.
_SHOWN = 6


def _some(fields: list[str]) -> list[str]:
    return fields[:_SHOWN] + ["…"] * (len(fields) > _SHOWN)


_NO_TIME = np.iinfo(np.int64).min


def _free(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if it is taken."""
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each not in taken)


def _later(a: int | None, b: int | None) -> int | None:
    return max((each for each in (a, b) if each is not None), default=None)


def _sooner(a: int | None, b: int | None) -> int | None:
    return min((each for each in (a, b) if each is not None), default=None)


def _has_integers(values: Any) -> bool:
    return isinstance(values, list) and any(isinstance(value, int) for value in values)


def _series(values: Any) -> polars.Series:
    import polars

    if isinstance(values, list) and _is_mixed(values):
        # Polars would make floats of large integers beside fractions.
        return polars.Series(values, dtype=polars.Object)
    try:
        return polars.Series(values)
    except (TypeError, OverflowError):
        return polars.Series(values, dtype=polars.Object)


def _is_mixed(values: list[Any]) -> bool:
    """Whether at one place of the values there are values of several types."""
    kinds = {kind for value in values for kind in _kinds(value, ())}
    return len({place for place, _ in kinds}) < len(kinds)


def _kinds(value: Any, place: tuple[str | None, ...]) -> Iterator[tuple[tuple[str | None, ...], type]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _kinds(each, (*place, key))
    elif isinstance(value, list):
        for each in value:
            yield from _kinds(each, (*place, None))
    elif value is not None:
        yield place, type(value)
