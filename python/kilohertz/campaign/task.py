"""What a campaign runs, and with which files and programs: the same wherever it runs, or not at all."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _native
from . import child
from .errors import CampaignError

Row = dict[str, Any]
Identity = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One campaign without its seeds. It travels to the workers."""

    robot: str | None
    """As it was given: for commands that are shown."""
    episodes: str | None
    timeout: float
    khz: str | None
    """The command, if one was given."""
    identity: Identity
    """What all results of a campaign have in common: hashes of files and programs, and their versions."""
    folder: str
    """Relative paths are from here."""

    @staticmethod
    def of(
        robot: str | os.PathLike[str] | None, episodes: str | None, timeout: float, khz: str | os.PathLike[str] | None
    ) -> Task:
        """Raises CampaignError if a file is not there, ValueError for a time that is none."""
        if not 0 < timeout < 1e9:
            raise ValueError(f"timeout is {timeout:g}; it is a time in seconds")
        if episodes is not None and robot is None:
            raise ValueError("episodes need a robot file")
        words = [None if path is None else os.fspath(path) for path in (robot, khz)]
        task = Task(words[0], episodes, timeout, words[1], {}, os.getcwd())
        return Task(task.robot, episodes, timeout, task.khz, task._identity(), task.folder)

    def rows(self, first: int, last: int) -> list[Row]:
        """The rows of the seeds `first` to `last`. Raises CampaignError if files or program are not those of the campaign."""
        return list(self.each(first, last))

    def each(self, first: int, last: int, *, show: bool = False) -> Iterator[Row]:
        """The same, each when it is there. `show`: what the program writes on stderr is shown."""
        here = self._identity()
        for key in self.identity.keys() | here.keys():
            if here.get(key) != self.identity.get(key):
                text = f"{os.uname().nodename}: {key} is {_brief(here.get(key))}, the campaign began with {_brief(self.identity.get(key))}"
                raise CampaignError(f"{text}; every computer needs the same, and it must not change meanwhile")
        changed = self._changed()
        for line in child.lines(self.command, first, last, self.timeout, show):
            yield self._row(line)
        if self._changed() != changed:
            raise CampaignError(f"{os.uname().nodename}: a file of the campaign was written meanwhile")

    def try_out(self) -> None:
        """Raises CampaignError if the program does not begin with this robot."""
        with child.Child(self.command(1, 1)) as begun:
            begun.head(self.timeout + 60.0)

    def command(self, first: int, count: int) -> list[str]:
        """What a worker runs."""
        seeds = ["--seed", str(first), "--scenarios", str(count)]
        if self.episodes is not None:
            robot = str(self._path(self.robot or ""))
            return [sys.executable, "-m", "kilohertz.campaign.episodes", robot, self._reference(self.episodes), *seeds]
        robots = [] if self.robot is None else [str(self._path(self.robot))]
        return [self._khz(), "drill", "campaign", *robots, "--each", *seeds]

    def replay(self, seed: int) -> str:
        """The command that runs this seed again, for the shell of the one who began the campaign."""
        robots = [] if self.robot is None else [self.robot]
        seeds = ["--scenarios", "1", "--seed", str(seed)]
        if self.episodes is not None:
            python = _in_path("python", sys.executable)
            return shlex.join([python, "-m", "kilohertz.campaign", *robots, "--episodes", self.episodes, *seeds])
        return shlex.join([_in_path("khz", self._khz()), "drill", "campaign", *robots, *seeds])

    def _path(self, name: str) -> Path:
        return Path(self.folder, name)

    def _reference(self, name: str) -> str:
        path, found, function = name.rpartition(":")
        if not found or not path or not function.isidentifier():
            raise CampaignError(f"episodes is `{name}`; it is FILE.py:NAME or MODULE:NAME, of a function that makes an `Env` and a policy")
        return f"{self._path(path)}:{function}" if path.endswith(".py") else name

    def _khz(self) -> str:
        if self.khz is not None:
            return str(self._path(self.khz))
        beside = Path(sysconfig.get_path("scripts"), "khz")
        found = str(beside) if beside.is_file() else shutil.which("khz")
        if found is None:
            raise CampaignError(f"the command khz is neither in {beside.parent} nor in PATH: install it, or give its path (--khz)")
        return found

    def _identity(self) -> Identity:
        identity: Identity = {"kind": "drill" if self.episodes is None else "episodes", "version": _native.__version__}
        if self.robot is not None:
            identity |= self._robot(self._path(self.robot))
        if self.episodes is None:
            identity["khz"] = _hash(Path(self._khz()))
        else:
            file, _, function = self._reference(self.episodes).rpartition(":")
            source = _hash(Path(file)) if file.endswith(".py") else file
            identity |= {"episodes": f"{source}:{function}", "native": _hash(Path(_native.__file__))}
        return identity

    def _changed(self) -> list[int]:
        """When its files were changed the last time, even if they are again what they were."""
        files = [] if self.robot is None else [self._path(self.robot)]
        if self.episodes is None:
            files.append(Path(self._khz()))
        else:
            source, _, _ = self._reference(self.episodes).rpartition(":")
            files += [Path(_native.__file__), *([Path(source)] if source.endswith(".py") else [])]
        return [file.stat().st_ctime_ns if file.exists() else 0 for file in files]

    def _robot(self, path: Path) -> Identity:
        identity: Identity = {"robot": _hash(path)}
        try:
            body = tomllib.loads(path.read_text()).get("body", {})
        except (OSError, ValueError):
            # What is wrong in it, `khz` says best.
            return identity
        model = body.get("model") if isinstance(body, dict) else None
        if isinstance(model, str):
            identity["model"] = _hash(path.parent / model)
            try:
                identity["mujoco"] = importlib.metadata.version("mujoco")
            except importlib.metadata.PackageNotFoundError:
                identity["mujoco"] = os.environ.get("KHZ_MUJOCO", "")
        return identity

    def _row(self, line: child.Line) -> Row:
        """A row of the dataset."""
        invariant = line.pop("invariant", None)
        verdict = line.setdefault("verdict", "held" if invariant is None else "violated")
        broken = verdict if invariant is None and verdict != "held" else invariant
        hashed = self.identity["khz" if self.episodes is None else "native"]
        return {"violated": broken, "what": None, **line, "program": f"{self.identity['version']} {hashed[:12]}"}


def _in_path(name: str, path: str) -> str:
    """The name, where it is enough in this shell."""
    found = shutil.which(name)
    return name if found is not None and os.path.abspath(found) == os.path.abspath(path) else path


def _brief(value: Any) -> str:
    return "not there" if value is None else f"`{str(value)[:12]}`"


def _hash(path: Path) -> str:
    """SHA-256 of a file. Raises CampaignError if it cannot be read."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            return _hashed(str(path), about.st_mtime_ns, about.st_size, about.st_ino)
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}") from None


@functools.lru_cache(16)
def _hashed(path: str, *_about: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text(identity: Identity) -> str:
    """The same text for the same identity."""
    return json.dumps(identity, sort_keys=True)
