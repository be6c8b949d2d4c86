"""The folder of a campaign: a dataset of Parquet files, each of the seeds in its name."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CampaignError, needed
from .task import Identity, Row, text

_PART = re.compile(r"part-(\d+)-(\d+)\.parquet")
#: Names that begin like this are no part of a dataset for PyArrow, pandas and Ray.
_IDENTITY, _ROBOT, _TEMPORARY, _DAMAGED = "_campaign.json", "_robot.toml", "_writing-", "_damaged-"
#: What it was about to write when it was killed. Without the ending `.parquet`, for engines that take all such files.
_LEFT = re.compile(r"_writing-(_campaign\.json|_robot\.toml|part-\d+-\d+\.parquet)\.part")
_KEY = b"kilohertz.campaign"
_MOST = 2**63

_COMMON = {"seed": "uint64", "robot": "string", "verdict": "string", "violated": "string", "what": "string", "scenario": "string"}
_COLUMNS = {
    "drill": {
        **_COMMON,
        "controller": "string",
        "armed": "bool",
        "brought_down": "bool",
        "reaction_us": "float64",
        "allowed_us": "float64",
        "peak_speed": "float64",
        "program": "string",
    },
    "episodes": {**_COMMON, "reward": "float64", "length": "int64", "time_s": "float64", "program": "string"},
}


@dataclass(frozen=True, order=True)
class Seeds:
    """Seeds from `first` to `last`, both included."""

    first: int
    last: int

    @staticmethod
    def of(first: int, count: int) -> Seeds:
        """Raises ValueError for what is no range of seeds."""
        if count < 1 or first < 0 or first + count > _MOST:
            raise ValueError(f"{count} seeds from {first}; there is at least one, from 0 to 2^63 - 1")
        return Seeds(first, first + count - 1)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first} to {self.last}" if self.first < self.last else str(self.first)

    def without(self, ranges: list[Seeds]) -> Iterator[Seeds]:
        """What is left of them without these, which do not overlap."""
        first = self.first
        for other in sorted(ranges):
            if first < other.first:
                yield from _some(first, min(self.last, other.first - 1))
            first = max(first, other.last + 1)
        yield from _some(first, self.last)

    def cut(self, size: int) -> Iterator[Seeds]:
        """In pieces of at most `size`."""
        first = self.first
        while first <= self.last:
            last = min(self.last, first + size - 1)
            yield Seeds(first, last)
            first = last + 1


def _some(first: int, last: int) -> Iterator[Seeds]:
    if first <= last:
        yield Seeds(first, last)


class Folder:
    """A campaign's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity: Identity | None = None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """No other program writes to it meanwhile. Creates it. Raises CampaignError if it cannot be written, another program does, or it is not a
        campaign's: then nothing in it is touched."""
        if "://" in str(self.path) or re.match(r"\w[\w+.-]+:/[^/]", str(self.path)):
            raise CampaignError(f"{self.path}: is an address; take a folder of this computer, and copy it there afterwards")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise CampaignError(f"{self.path}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise CampaignError(f"{self.path}: another process runs a campaign into this folder; wait for it, or take another folder") from None
            there = [path for path in self.path.iterdir() if not _LEFT.fullmatch(path.name)]
            if not (self.path / _IDENTITY).exists() and [path.name for path in there] not in ([], [_ROBOT]):
                name = min(path.name for path in there)
                raise CampaignError(f"{self.path}: has other files ({name}) and no {_IDENTITY}; take another folder")
            for left in self.path.iterdir():
                if _LEFT.fullmatch(left.name):
                    left.unlink()
            yield
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def robot(self, text: str) -> Iterator[Path]:
        """The path of a file in the folder with the text of a robot file. It stays if the campaign begins meanwhile."""
        path, wrote = self.path / _ROBOT, False
        if not path.exists():
            self._save(_ROBOT, lambda file: file.write(text.encode()))
            wrote = True
        elif path.read_bytes() != text.encode():
            raise CampaignError(f"{path}: is another robot; take another folder")
        try:
            yield path
        finally:
            if wrote and not (self.path / _IDENTITY).exists():
                path.unlink(missing_ok=True)

    def check(self, identity: Identity) -> None:
        """Raises CampaignError if it has results of another campaign than this one."""
        self._identity = identity
        path = self.path / _IDENTITY
        if not path.exists() or not self._parts():
            return
        try:
            begun = json.loads(path.read_text())
            is_same = dict(begun) == identity
        except (OSError, ValueError, TypeError) as error:
            raise CampaignError(f"{path}: cannot be read ({error}); restore it, or take another folder") from None
        if not is_same:
            raise CampaignError(f"{self.path}: {_difference(begun, identity)}; take another folder")

    def claim(self) -> None:
        """Makes it the folder of the campaign that was checked."""
        path, words = self.path / _IDENTITY, json.dumps(self._identity, indent=2, sort_keys=True) + "\n"
        if not path.exists() or path.read_text() != words:
            self._save(_IDENTITY, lambda file: file.write(words.encode()))

    def missing(self, wanted: Seeds, notify: Callable[[str], None]) -> list[Seeds]:
        """The wanted seeds that no part has."""
        return list(wanted.without(self._ranges(notify)))

    def write(self, seeds: Seeds, rows: list[Row]) -> None:
        """Writes a part, which appears when it is complete. The same rows give the same bytes. Raises CampaignError if it cannot be written."""
        if [row["seed"] for row in rows] != list(range(seeds.first, seeds.last + 1)):
            raise CampaignError(f"seeds {seeds}: the worker returned other seeds; this is a defect of Kilohertz, please report it")
        arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
        table = arrow.Table.from_pylist([_fitting(row) for row in rows], schema=self._schema(arrow))
        name = f"part-{seeds.first:010}-{seeds.last:010}.parquet"
        self._save(name, lambda file: parquet.write_table(table, file, row_group_size=len(seeds), write_page_checksum=True))

    def table(self, seeds: Seeds) -> Any:
        """The rows of these seeds, in their order."""
        parquet, compute = needed("pyarrow.parquet"), needed("pyarrow.compute")
        parts = [(found, path) for found, path in self._parts() if found.first <= seeds.last and found.last >= seeds.first]
        if not parts:
            arrow = needed("pyarrow")
            identity = json.loads((self.path / _IDENTITY).read_text())
            return _schema(arrow, identity).empty_table()
        tables = [parquet.read_table(path, partitioning=None, page_checksum_verification=True) for _, path in parts]
        table = needed("pyarrow").concat_tables(tables)
        inside = compute.and_(compute.greater_equal(table["seed"], seeds.first), compute.less_equal(table["seed"], seeds.last))
        return table.filter(inside)

    def _schema(self, arrow: Any) -> Any:
        assert self._identity is not None, "claim comes first"
        return _schema(arrow, self._identity)

    def _parts(self) -> list[tuple[Seeds, Path]]:
        named = [(_PART.fullmatch(path.name), path) for path in self.path.glob("part-*.parquet")]
        return sorted((Seeds(int(name[1]), int(name[2])), path) for name, path in named if name)

    def _ranges(self, notify: Callable[[str], None]) -> list[Seeds]:
        """The seeds of the parts, each of which is looked into. Damaged ones are put aside."""
        ranges: list[Seeds] = []
        for seeds, path in self._parts():
            why = self._damage(seeds, path)
            if why is not None:
                # Without the ending `.parquet`: see above.
                aside = path.with_name(_DAMAGED + path.stem)
                notify(f"{path}: {why}; put aside as {aside.name}, its seeds run again")
                path.rename(aside)
                continue
            if ranges and ranges[-1].last >= seeds.first:
                raise CampaignError(f"{path}: its seeds are in another part, too; they would count twice: remove one of them")
            ranges.append(seeds)
        return ranges

    def _damage(self, seeds: Seeds, path: Path) -> str | None:
        """What is wrong with a part. Raises CampaignError if it is of another campaign."""
        arrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
        try:
            table = parquet.read_table(path, partitioning=None, page_checksum_verification=True)
        except (arrow.ArrowException, OSError, ValueError) as error:
            return f"not a whole Parquet file ({' '.join(str(error).split())})"
        of = (table.schema.metadata or {}).get(_KEY)
        if of is None or (self._identity is not None and of.decode(errors="replace") != text(self._identity)):
            raise CampaignError(f"{path}: is of another campaign; remove it, or take another folder")
        found = table["seed"].to_pylist() if "seed" in table.column_names else []
        return None if found == list(range(seeds.first, seeds.last + 1)) else "has other seeds than its name says"

    def _save(self, name: str, write: Callable[[Any], object]) -> None:
        """A file appears under its name when it is complete and on the disk."""
        temporary = self.path / f"{_TEMPORARY}{name}.part"
        try:
            with temporary.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            cure = "free some space" if full else "see to it"
            raise CampaignError(f"{self.path / name}: {error.strerror or error}; {cure} and start again: what is written stays") from None


def _fitting(row: Row) -> Row:
    """What episodes put into a text column as a text that can be written: an error's message may have half a character."""
    texts = {name for columns in _COLUMNS.values() for name, kind in columns.items() if kind == "string"}
    found = {name: str(value).encode("utf-8", "replace").decode() for name, value in row.items() if name in texts and value is not None}
    return row | found


def _schema(arrow: Any, identity: Identity) -> Any:
    columns = _COLUMNS[identity["kind"]]
    fields = [arrow.field(name, getattr(arrow, "bool_" if kind == "bool" else kind)()) for name, kind in columns.items()]
    return arrow.schema(fields, metadata={_KEY: text(identity)})


def _difference(begun: Identity, now: Identity) -> str:
    """What is not as it was when the campaign began."""
    what = {
        "kind": "the kind of campaign",
        "version": "the version of Kilohertz",
        "robot": "the robot file",
        "model": "the MuJoCo model",
        "mujoco": "the version of MuJoCo",
        "khz": "the program khz",
        "native": "the Python package",
        "episodes": "the function of the episodes",
    }
    keys = [key for key in [*what, *begun] if begun.get(key) != now.get(key)]
    names = dict.fromkeys(what.get(key, key) for key in keys)
    return f"its results are of another campaign: {', '.join(names)} differ{'s' * (len(names) == 1)} from what it began with"
