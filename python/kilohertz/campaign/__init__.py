"""Thousands of drill scenarios or episodes on Ray, their results as a Parquet dataset.

>>> from kilohertz import campaign                                              # doctest: +SKIP
>>> done = campaign.run("robot.toml", out="results", scenarios=1000)           # doctest: +SKIP
>>> print(done)                                                                 # doctest: +SKIP
everything held in 1,000 scenarios: 826 came under control, 644 were brought down by a fault
>>> campaign.run("robot.toml", out="walks", episodes="walk.py:make")            # doctest: +SKIP

The same from a shell: `python -m kilohertz.campaign robot.toml --scenarios 1000 --out results`. It needs Ray and PyArrow:
`pip install kilohertz[campaign]`.

A scenario depends on its seed alone, so a campaign can be spread over any number of workers, interrupted and continued. The seeds of
a chunk are one Parquet file, which appears when it is complete: no seed is lost or counted twice, whatever is killed in between.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cluster import Failed, cluster, on_ray
from .errors import CampaignError, needed
from .parts import Folder, Seeds
from .task import Row, Task

__all__ = ["Campaign", "CampaignError", "Failed", "Row", "Seeds", "run"]

PathLike = str | os.PathLike[str]
Notify = Callable[[str], None]

#: Failing seeds shown in a text; the dataset has all.
_SHOWN = 20


@dataclass(frozen=True)
class Campaign:
    """What came of a campaign. `str` of it is what `python -m kilohertz.campaign` prints."""

    folder: Path
    """The dataset: `pyarrow.dataset.dataset(folder)`, `pandas.read_parquet(folder)`, `ray.data.read_parquet(folder)`."""
    seeds: Seeds
    """The seeds that were asked for."""
    verdicts: Counter[str]
    """Scenarios by verdict: `held`, `violated`, `timeout`, `crashed`, `error`."""
    failures: list[Row]
    """The rows that are not `held`, by seed; `replay` of each is the command that repeats it."""
    armed: int | None = None
    """Of drills: scenarios whose robot came under control. In the others nothing could go wrong with it."""
    brought_down: int | None = None
    """Of drills: scenarios in which a fault brought the robot down."""
    failed: list[Failed] = field(default_factory=list)
    """Chunks without a result, and why. The same call tries them again."""

    @property
    def held(self) -> bool:
        """Every scenario has a result, and everything held."""
        return not self.failures and not self.failed

    def table(self) -> Any:
        """The results as a PyArrow table, one row per seed, in their order."""
        return Folder(self.folder).table(self.seeds)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        done, wanted = sum(self.verdicts.values()), len(self.seeds)
        others = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(self.verdicts.items()) if verdict != "held")
        if done < wanted:
            yield f"NO RESULT of {wanted - done:,} of {wanted:,} scenarios"
        control = "" if self.armed is None else f": {self.armed:,} came under control, {self.brought_down:,} were brought down by a fault"
        if done:
            yield f"{others or 'everything held'} in {done:,} scenario{'s' * (done != 1)}{control}"
        for row in self.failures[:_SHOWN]:
            kind = row["violated"] or row["verdict"]
            yield f"\nseed {row['seed']}: {kind}: {row['what']}\n  {row['scenario'] or row['robot'] or ''}\n  replay: {row['replay']}"
        if len(self.failures) > _SHOWN:
            yield f"\n{len(self.failures) - _SHOWN:,} more: those of the dataset whose `verdict` is not `held`"
        for failed in self.failed:
            yield f"\nNOT DONE, seeds {failed.seeds}: {failed.why}"
        if self.failed:
            yield "\nthe same command tries these again"
        yield f"\nresults: {self.folder}"


def run(
    robot: PathLike | None = None,
    *,
    out: PathLike,
    text: str | None = None,
    episodes: str | None = None,
    scenarios: int = 1000,
    seed: int = 1,
    chunk: int = 50,
    workers: int | None = None,
    address: str | None = None,
    timeout: float = 60.0,
    attempts: int = 3,
    khz: PathLike | None = None,
    notify: Notify = lambda line: None,
) -> Campaign:
    """Runs the scenarios of the seeds `seed`, `seed + 1`, … that the folder `out` has no result of yet, and returns what came of all.

    `robot` is a robot file, or `text` is one; without both, `khz drill campaign` draws from its own robots. `episodes` names a function,
    `FILE.py:NAME` or `MODULE:NAME`: called with the path of the robot file, it returns an `Env` and a policy, and one episode per seed
    is played. Without `episodes`, scenarios are those of `khz drill campaign`.

    A part of the dataset has `chunk` seeds. `workers`: processes on this computer, by default one per CPU; `address` is that of a running Ray
    cluster instead (`"auto"`), of which every computer must have the same program and files, the files under the same path. If Ray is
    initialised in this process already, it is used. A scenario without a result after `timeout` s is killed. A chunk whose worker was
    killed is run again, `attempts` times in all. `khz` is the path of the command, otherwise that beside this Python or in `PATH`.
    `notify` receives lines on the progress.

    Raises CampaignError if the campaign cannot begin or go on (the folder is of another robot or program, the robot file is wrong, the
    disk is full), ImportError without Ray, ValueError for numbers that make no sense. Blocks until all is done. A
    KeyboardInterrupt loses nothing that is written: the same call goes on.
    """
    wanted = Seeds.of(seed, scenarios)
    if chunk < 1 or attempts < 1 or (workers is not None and workers < 1):
        raise ValueError(f"chunk is {chunk}, attempts {attempts}, workers {workers}; each is a number from 1 up")
    if text is not None and robot is not None:
        raise ValueError("give a robot file or its text, not both")
    folder = Folder(Path(out))
    with folder.locked(), folder.robot(text) if text is not None else contextlib.nullcontext(robot) as robot:
        task = Task.of(robot, episodes, timeout, khz)
        folder.check(task.identity)
        missing = folder.missing(wanted, notify)
        failed: list[Failed] = []
        if missing:
            task.try_out()
            folder.claim()
            done = scenarios - sum(map(len, missing))
            if done:
                notify(f"{done:,} of {scenarios:,} scenarios are in {folder.path} already")
            chunks = (piece for gap in missing for piece in gap.cut(chunk))
            with cluster(workers, address) as ray:
                for seeds, rows in on_ray(ray, task, chunks, attempts, failed, notify):
                    folder.write(seeds, rows)
                    done += len(seeds)
                    notify(f"{done:,} of {scenarios:,} scenarios")
        return _outcome(folder, wanted, task, failed)


def _outcome(folder: Folder, seeds: Seeds, task: Task, failed: list[Failed]) -> Campaign:
    table = folder.table(seeds)
    verdicts: Counter[str] = Counter(table["verdict"].to_pylist())
    rows: list[Row] = table.filter(needed("pyarrow.compute").not_equal(table["verdict"], "held")).to_pylist()
    failures = [row | {"replay": task.replay(row["seed"])} for row in rows]
    armed, down = (sum(filter(None, table[name].to_pylist())) if name in table.column_names else None for name in ("armed", "brought_down"))
    return Campaign(folder.path, seeds, verdicts, failures, armed, down, failed)
