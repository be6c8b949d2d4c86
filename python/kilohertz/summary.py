"""A run in figures, and its report."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any, TypedDict

from . import _native
from ._native import RobotError
from ._notebook import table
from .results import Distribution, Table, distributions


class LateTicks(dict[str, Any]):
    """`summary["late"]`, a dictionary as any other; printed it is one line, and not every late tick with all its parts."""

    def __repr__(self) -> str:
        causes = [f"{group['cause']} {group['ticks']:,}" for group in self["by_cause"] if group["ticks"]]
        late = sum(group["ticks"] for group in self["by_cause"])
        return f"<{late:,} of {self['judged']:,} ticks late{': ' if causes else ''}{', '.join(causes)}; keys: {', '.join(self)}>"


class Verdict(TypedDict):
    """Whether the robot held its rate, and why it is no better."""

    held: bool
    level: str
    """`good`, `warn` or `bad`."""
    headline: str
    text: str
    cause: str | None
    do: str | None
    """How to fix it: a command or a hint."""
    reasons: list[Any]


class Summary(dict[str, Any]):
    __doc__ = """A run in figures, as `khz run --json` prints them; every key is also an attribute.

    `verdict`, `rate_hz`, `controlled` and `outside` (the counts below of those ticks, `periods`, `lost_periods`), `lost_time`, `grade`,
    `end`, `log`, `log_dropped`, `log_error` (None, or why the log is not whole), `sinks`, `events`, `servos`; of a Python
    controller the distributions `python_ns` (in it) and `overhead_ns` (ours around it). `trunk` has the `position` (m) of the
    trunk of an emulated robot at the very end, when the robot has come down after its control; None without one. Of a chain `modules` lists each module's `name` and `time` in ns.
    Counts, and distributions (in ns, with `p50 p90 p99 p999 max`), as `docs/metrics.md` defines them:

""" + "".join(f"    - `{key}`: {definition}\n" for key, definition in _native.FIGURES.items())

    robot: str
    clock: str
    verdict: Verdict
    rate_hz: float
    target_rate_hz: float
    end: str
    ended_well: bool
    log: str | None
    log_files: list[str]
    log_dropped: int
    log_error: str | None
    grade: str
    controlled: dict[str, int]
    outside: dict[str, int]
    events: list[dict[str, Any]]
    servos: list[dict[str, Any]]
    buses: list[dict[str, Any]]
    modules: list[dict[str, Any]]
    parts: list[dict[str, Any]]
    changed_commands: int
    early_frames: int
    steal_ns: int
    python_ns: Distribution
    overhead_ns: Distribution
    wake_latency_outside_ns: Distribution
    # The figures of `docs/metrics.md`; a test compares them with `_native.FIGURES`.
    clipped_decisions: int
    control_ns: Distribution
    cpu_ns: Distribution
    cut_decisions: int
    cycle_ns: Distribution
    decision_ns: Distribution
    decisions: int
    imu_missed: int
    late_decisions: int
    late_in_a_row: int
    late_replies: int
    late_wakes: int
    loop_compute_ns: Distribution
    missed_decisions: int
    missed_replies: int
    missed_while_off_cpu: int
    overruns: int
    page_faults: int
    period_ns: Distribution
    skipped: int
    skipped_in_a_row: int
    start_delay_ns: Distribution
    ticks: int
    ticks_without_frame: int
    unexpected_frames: int
    wake_latency_ns: Distribution

    _run: _native.Run | None = None

    def __getstate__(self) -> None:
        """A copy has the figures alone."""

    def report(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the report, a page of HTML, and returns its path. FileExistsError if that is there. The one that a run
        writes beside its log is `summary["report"]`."""
        if self._run is None:
            raise ValueError("a copy of a summary has no report; `khz log report` makes one of the log")
        with open(path, "x", encoding="utf-8") as file:
            file.write(self._run.page())
        return pathlib.Path(path)

    @property
    def distributions(self) -> Table:
        """Every distribution in these figures as a table: one row each, those of servos and modules by their names."""
        return distributions(self)

    def __repr__(self) -> str:
        return (
            f"<Summary: {self.ticks} ticks at {self.rate_hz:.1f} Hz of {self.target_rate_hz:.0f}, "
            f"{self.missed_replies} replies missed; {self.end}>"
        )

    def __str__(self) -> str:
        """The verdict in one sentence, then what it is of and where its files are."""
        changed = f"{self.changed_commands:,} commands changed to keep limits; " if self.changed_commands else ""
        more = f" and {len(self['log_files']) - 1} more files" if len(self["log_files"]) > 1 else ""
        files = "; ".join(str(file) for file in (self["log"] and self["log"] + more, self["report"]) if file)
        return f"{self.verdict['text']}\n{self.ticks:,} ticks; {changed}{self.end}; {files or 'no log'}"

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {
            "rate": f"{self.rate_hz:.2f} Hz of {self.target_rate_hz:.0f}",
            "ticks": f"{self.ticks:,}",
            "lost periods": f"{self.controlled['lost_periods']:,}",
            "missed replies": f"{self.missed_replies:,}",
            "overruns": f"{self.overruns:,}",
            "bus cycle": _microseconds(self.cycle_ns),
            "wake latency": _microseconds(self.wake_latency_ns),
            "end": self.end,
            "log": self.log or "none",
        }
        return table(self.robot, rows.items())

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no figure is called {name!r}; there are: {', '.join(self)}") from None


def _summary(run: _native.Run, text: str, report: bool) -> Summary:
    summary = Summary(json.loads(text))
    summary["late"] = LateTicks(summary["late"])
    summary._run = run
    if report and summary["log"]:
        try:
            page = pathlib.Path(summary["log"]).with_suffix(".html")
            summary["report"] = os.fspath(run.write_report(os.fspath(page)))
        except OSError as why:
            # The run was what it was, whether or not it can be reported.
            warnings.warn(f"cannot write the report: {why}", RuntimeWarning, stacklevel=3)
    run.raise_end()
    if not summary["ended_well"]:
        error = RobotError(summary["end"])
        error.summary = summary
        raise error
    return summary


def _microseconds(values: Mapping[str, Any]) -> str:
    if not values["count"]:
        return "no value"
    return ", ".join(f"{name} {values[name] / 1000:.1f} µs" for name in ("p50", "p99", "max"))
