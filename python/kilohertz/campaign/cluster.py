"""Ray: a small one of our own on this computer, or one that is there; and chunks on it, each until it has a result."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .errors import CampaignError, needed
from .parts import Seeds
from .task import Row, Task

#: Bytes for objects that workers share, the least Ray accepts: rows are small.
_OBJECTS = 80 << 20
#: Our own Ray's folders, and the variable by which its workers are known, and what they start.
_PREFIX, _MARK = "khz-ray-", "KHZ_CAMPAIGN_RAY"
#: Waits for a byte, or for the end of the campaign's process: not for that of the pipe, which other children may have, too.
_SWEEP = """
import os, pathlib, select, shutil, signal, sys, time
try:
    campaign = os.pidfd_open(int(sys.argv[3]))
    if os.getppid() == int(sys.argv[3]):
        select.select([0, campaign], [], [])
except ProcessLookupError:
    pass
mark, folder = f"{sys.argv[1]}={sys.argv[2]}".encode(), os.path.realpath(sys.argv[2]).encode() + b"/"
def of_ray(process):
    try:
        if mark in (process / "environ").read_bytes().split(bytes(1)):
            return True
        # Ray's programs have the folder among their words, or a title in the place of those and their logs in the folder.
        # The campaign itself has files open there, too.
        words = (process / "cmdline").read_bytes()
        if words.startswith(b"ray::"):
            return any(os.readlink(bytes(file)).startswith(folder) for file in (process / "fd").iterdir())
        return sys.argv[2].encode() in words and b"/ray/" in words and int(process.name) != os.getpid()
    except OSError:
        return False
none = 0
for _ in range(100):
    left = [int(process.name) for process in pathlib.Path("/proc").glob("[0-9]*") if of_ray(process)]
    # One that is just being started has neither yet.
    none = 0 if left else none + 1
    if none == 10:
        break
    for process in left:
        try:
            os.kill(process, signal.SIGKILL)
        except OSError:
            pass
    time.sleep(0.05)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""
#: Sockets in the folder have paths of at most 107 bytes, of which Ray needs this many for itself.
_LONGEST = 35
#: Chunks handed to Ray at a time, per CPU: enough that none is idle, and few enough to be lost.
_AHEAD = 3


@dataclass(frozen=True)
class Failed:
    """A chunk without a result."""

    seeds: Seeds
    why: str


@contextlib.contextmanager
def cluster(workers: int | None, address: str | None) -> Iterator[Any]:
    """Ray, initialised. One of our own has `workers` processes, nothing of it listens beyond this computer or reports to others, and
    it is gone afterwards, even if this process is killed. Raises ImportError without Ray, CampaignError if it does not start."""
    ours = {
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray's own switch for computers without a cluster: all its servers then listen at 127.0.0.1 only. It is read when Ray is imported.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        # Otherwise Ray leaves a secret of its own in the home folder.
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    with _environment(ours if address is None else {}):
        ray = needed("ray")
        if ray.is_initialized():
            yield ray
            return
        with _folder() as folder, _sigterm() as keep_sigterm:
            try:
                if address is not None:
                    ray.init(address=address, log_to_driver=False, logging_level="error")
                else:
                    ray.init(
                        address="local",
                        num_cpus=workers,
                        num_gpus=0,
                        include_dashboard=False,
                        object_store_memory=_OBJECTS,
                        log_to_driver=False,
                        logging_level="error",
                        _temp_dir=folder,
                        # Not in our own environment: whatever else this program starts meanwhile would have it.
                        runtime_env={"env_vars": {_MARK: folder}},
                    )
                    _check_local(ray)
                keep_sigterm()
            except (OSError, RuntimeError, ValueError, ConnectionError) as error:
                ray.shutdown()
                raise CampaignError(f"Ray does not start: {error}") from error
            try:
                yield ray
            finally:
                ray.shutdown()


def _check_local(ray: Any) -> None:
    if ray.util.get_node_ip_address() not in ("127.0.0.1", "::1"):
        text = "it was imported before and would listen on all networks: set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before `import ray`"
        raise RuntimeError(f"{text}, or call `ray.init` yourself")


@contextlib.contextmanager
def _sigterm() -> Iterator[Callable[[], None]]:
    """SIGTERM does what it did before Ray, whose own handler aborts the process: after a call of what this returns, and afterwards."""
    before = signal.getsignal(signal.SIGTERM)

    def keep() -> None:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)

    try:
        yield keep
    finally:
        keep()


@contextlib.contextmanager
def _environment(ours: dict[str, str]) -> Iterator[None]:
    """These variables, for Ray's processes too; what is set already stays."""
    new = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A folder for Ray's sockets and logs. Afterwards a process of its own removes it, and ends what is left of Ray: also if this process is
    killed, and then Ray's agents, some of which would wait for a minute for the rest of it."""
    base = tempfile.gettempdir()
    base = base if len(os.fsencode(base)) <= _LONGEST else "/tmp"
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
    words = [sys.executable, "-I", "-S", "-c", _SWEEP, _MARK, folder, str(os.getpid())]
    # A session of its own: Ctrl-C is not meant for it.
    with subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) as sweep:
        try:
            yield folder
        finally:
            sweep.communicate(b"\n")


def on_ray(
    ray: Any, task: Task, chunks: Iterator[Seeds], attempts: int, failed: list[Failed], notify: Callable[[str], None]
) -> Iterator[tuple[Seeds, list[Row]]]:
    """The rows of each chunk, once, in whatever order they are ready. A chunk that fails `attempts` times goes to `failed`. Raises
    CampaignError for a Ray without CPUs."""
    if ray.cluster_resources().get("CPU", 0) < 1:
        raise CampaignError("Ray has no CPU for a worker here: see `num_cpus` of `ray.init` or `ray start`")
    # Ray's own retries would not say why a worker ended.
    remote = ray.remote(num_cpus=1, max_retries=0)(_rows)
    first, again = ((seeds, 1) for seeds in chunks), deque[tuple[Seeds, int]]()
    pending: dict[Any, tuple[Seeds, int]] = {}
    while True:
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        while len(pending) < _AHEAD * cpus and (found := again.popleft() if again else next(first, None)):
            seeds, attempt = found
            pending[remote.remote(task, seeds.first, seeds.last)] = (seeds, attempt)
        if not pending:
            return
        ready, _ = ray.wait(list(pending), num_returns=1, timeout=1.0)
        for reference in ready:
            seeds, attempt = pending.pop(reference)
            try:
                rows = ray.get(reference)
            except ray.exceptions.RayError as error:
                why = _why(ray, error)
                if attempt < attempts:
                    notify(f"seeds {seeds}: {why}; they run again ({attempt + 1} of {attempts})")
                    again.append((seeds, attempt + 1))
                else:
                    failed.append(Failed(seeds, f"{why} ({attempts} attempts)"))
                    notify(f"seeds {seeds}: {failed[-1].why}; given up, the others go on")
                continue
            yield seeds, rows


def _rows(task: Task, first: int, last: int) -> list[Row]:
    """Runs in a worker."""
    return task.rows(first, last)


def _why(ray: Any, error: Any) -> str:
    """What went wrong in a worker, in a line."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return str(error.cause)
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return "its worker was killed: the computer was out of memory"
    if isinstance(error, ray.exceptions.WorkerCrashedError):
        return "its worker was killed"
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no reason given'])[0]}"
