"""What `khz` measured, as data frames.

>>> jitter = kilohertz.open_result("jitter.json")          # doctest: +SKIP
>>> jitter.distributions.to_pandas()                        # one row for each run and quantity
>>> jitter.late.to_polars()                                 # the late ticks and their causes
>>> kilohertz.Robot.quadruped().run(duration=5.0).distributions.to_pandas()   # doctest: +SKIP

Round trips of `khz rtt` are records of a log: read them with `open_log`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from ._native import KilohertzError

if TYPE_CHECKING:
    import pandas
    import polars

Array = npt.NDArray[Any]
QUANTITIES = ("wake_latency", "start_delay", "period", "execution", "response")
"""What `khz jitter` measures: of every tick that ran, and (`start_delay`) of every planned period. `docs/metrics.md` defines
them."""


class Distribution(TypedDict):
    """Values of one quantity, ns, and how many there are. `p999` is the percentile 99.9; `max_at` is where the largest was."""

    count: int
    min: int
    mean: float
    sigma: float
    p50: int
    p90: int
    p99: int
    p999: int
    p9999: int
    max: int
    max_at: int


DISTRIBUTION = tuple(Distribution.__annotations__)
"""Columns of a distribution. Times are in ns; `max_at` is where the largest was: ns since the start of a measurement,
or of the monotonic clock in a run."""


class ResultError(KilohertzError):
    """A file is no result, cut off, or of another version."""


class Table(Mapping[str, Array]):
    """Columns of equal length, by name, in order."""

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        rows = len(next(iter(self._columns.values()), ()))
        return f"<Table of {rows} rows: {', '.join(self._columns)}>"

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas data frame."""
        import pandas

        return pandas.DataFrame(self._columns)

    def to_polars(self) -> polars.DataFrame:
        """As a Polars data frame."""
        import polars

        # Texts are arrays of objects in NumPy.
        return polars.DataFrame(
            {name: values.tolist() if values.dtype == object else values for name, values in self._columns.items()}
        )


def table(rows: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Table:
    """A table of these columns; what a row lacks is NaN in numbers, None in texts."""
    rows = list(rows)
    return Table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> Array:
    if any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if any(value is None for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(values) if values else np.empty(0)


def open_result(path: str | os.PathLike[str]) -> Result:
    """A result saved by `khz jitter --save`. Raises OSError if the file cannot be read, ResultError if it is none."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        result = json.loads(data)
    except ValueError as error:
        raise ResultError(f"{os.fspath(path)}: not a whole JSON file ({error}); was its writing cut off?") from None
    kind = result.get("format") if isinstance(result, dict) else None
    if kind != "khz-jitter":
        text = "no result of `khz jitter --save`"
        raise ResultError(f"{os.fspath(path)}: {text}" + (f" but a {kind}" if kind else ""))
    if result.get("version") != 2:
        text = f"written by another version of khz ({result.get('version')}; this one reads 2): `khz compare --json` reads 1"
        raise ResultError(f"{os.fspath(path)}: {text}")
    try:
        return Result(result["runs"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ResultError(f"{os.fspath(path)}: a run lacks or has unfit {error}; measure again") from None


class Result:
    """What `khz jitter` measured, run by run. Times are in ns."""

    runs: list[str]
    """Names of the runs."""
    distributions: Table
    """One row for each run and quantity: `count`, `min`, `mean`, `sigma`, percentiles, `max`, `max_at`."""
    late: Table
    """One row for each late tick that was kept: when, how late, which part of it, why, and what had the CPU."""
    counts: Table
    """One row for each run: ticks, overruns, late wakes, missed ticks, CPU use."""
    histograms: Table
    """One row for each run, quantity and bucket: how often a `value_ns` was measured (`count`). Complete: nothing is
    filtered or cut."""

    def __init__(self, runs: list[dict[str, Any]]) -> None:
        self.runs = [run["name"] for run in runs]
        each = [(run["name"], name, run) for run in runs for name in QUANTITIES]
        rows = [{"run": run, "quantity": name, **data[f"{name}_ns"]} for run, name, data in each]
        self.distributions = table(rows, ("run", "quantity", *DISTRIBUTION))
        counts = ("ticks", "overruns", "late_wakes", "missed", "re_phased", "cpu_percent", "duration_ns")
        self.counts = table(({"run": run["name"], **run} for run in runs), ("run", *counts))
        late = (
            *("tick", "at_ns", "wake_latency_ns", "response_ns", "part", "cause"),
            *("previous_ns", "preempted_ns", "blocked_ns", "page_fault_ns", "unaccounted_ns", "involuntary", "faults"),
        )
        self.late = table(({"run": run["name"], **tick} for run in runs for tick in run["late"]), ("run", *late))
        buckets = [
            {"run": run, "quantity": name, "value_ns": value, "count": count}
            for run, name, data in each
            for value, count in data["histograms"][name]
        ]
        self.histograms = table(buckets, ("run", "quantity", "value_ns", "count"))


def distributions(figures: Mapping[str, Any]) -> Table:
    """Every distribution in the figures of a run: one row each, named by the path to it."""
    rows = [{"quantity": name, **values} for name, values in _find("", figures)]
    return table(rows, ("quantity", *DISTRIBUTION))


def _find(path: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        if {"count", "p50", "max"} <= value.keys():
            yield path, value
            return
        for name, inner in value.items():
            yield from _find(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            name = inner.get("name", index) if isinstance(inner, Mapping) else index
            yield from _find(f"{path}.{name}", inner)
