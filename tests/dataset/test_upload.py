"""Logs and a dataset are copied to a store with the commands of docs/datasets.md, by rclone, to rclone's own S3 server."""

import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import polars as pl
import pytest
from conftest import ROOT, Month
from robots import free_port

RCLONE = str(pathlib.Path(sys.executable).with_name("rclone"))
PAGE = (ROOT / "docs/datasets.md").read_text()
#: As fast as it goes, and a failure is one at once.
QUICK = ("--bwlimit", "off", "--retries", "1", "--low-level-retries", "1")
KEY, SECRET = "robot", "a-secret-of-its-own"


class Store:
    """An S3 server on a folder; a bucket is a folder in it."""

    def __init__(self, folder: pathlib.Path, log: pathlib.Path) -> None:
        self.folder, self.log = folder, log
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, limit: int | None = None) -> None:
        """With `limit` no file can be larger than that, as on a disk that is nearly full."""

        def small() -> None:
            if limit is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        words = [RCLONE, "serve", "s3", str(self.folder), "--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY},{SECRET}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=small)
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.fail(self.log.read_text())

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def names(self) -> set[str]:
        """Without what a server that was killed had begun to write, which no client sees."""
        files = (path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith(".rclone_temp_put_"))
        return {path.relative_to(self.folder).as_posix() for path in files}


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Store]:
    (tmp_path / "store/robots").mkdir(parents=True)
    (tmp_path / "store/bucket").mkdir()
    one = Store(tmp_path / "store", tmp_path / "server.txt")
    one.start()
    yield one
    one.stop()


Upload = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def upload(store: Store, tmp_path: pathlib.Path) -> Upload:
    """Starts a command of the page, which may create or change no file that rclone could write to."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RCLONE_")}
    for remote in ("BUCKET", "REMOTE"):
        options = {"TYPE": "s3", "PROVIDER": "Rclone", "ENDPOINT": store.address, "ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET}
        environment |= {f"RCLONE_CONFIG_{remote}_{name}": value for name, value in options.items()}
    environment |= {"RCLONE_CONFIG": str(tmp_path / "none.conf"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    def start(line: str, *more: str) -> "subprocess.Popen[str]":
        program, *words = shlex.split(line)
        assert program == "rclone"
        # Its messages go through a pipe, so that all that it could write is a file of its own.
        words = [RCLONE, *words, "-v", *more]
        return subprocess.Popen(words, cwd=tmp_path, env=environment, preexec_fn=full, stderr=subprocess.PIPE, text=True)

    return start


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, int]:
    """The return code, its output, and how many files it copied."""
    output = process.communicate(timeout=120)[1]
    return process.returncode, output, len(re.findall(r": Copied \(", output))


def service(logs: pathlib.Path) -> str:
    """The command of the page's service, for the logs in this folder."""
    line = next(line for line in PAGE.splitlines() if line.startswith("ExecStart=rclone"))
    changed = line.removeprefix("ExecStart=").replace("/var/lib/khz", str(logs))
    assert changed.count(str(logs)) == 1
    return changed


def old(folder: pathlib.Path) -> None:
    """No program writes to them any more."""
    for path in folder.iterdir():
        os.utime(path, (time.time() - 600,) * 2)


def same(one: pathlib.Path, other: pathlib.Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def test_logs_arrive_once_though_uploader_and_server_die(march: Month, store: Store, upload: Upload, tmp_path: pathlib.Path) -> None:
    logs, arrived = tmp_path / "own", store.folder / "robots/quad1"
    logs.mkdir()
    # Two megabytes and more, so that it takes a while at 1 MB/s.
    chosen = sorted(march.folder.glob("*.tlog"))[:40]
    for path in chosen:
        shutil.copy(path, logs)
    (logs / "notes.txt").write_text("not a log")
    assert sum(path.stat().st_size for path in chosen) > 2 << 20
    old(logs)
    (logs / "writing.tlog").write_bytes(b"somebody is still writing this")
    ours = {f"robots/quad1/{path.name}" for path in chosen}

    copied = 0
    # Slower than the page has it, so that it is not done before it is killed, however late this test looks.
    first = upload(service(logs), "--bwlimit", "100k")
    while len(store.names()) < 3:
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    first.kill()
    copied += ended(first)[2]
    assert 1 < len(store.names()) < len(ours)

    store.stop()
    code, output, none = ended(upload(service(logs), *QUICK))
    assert code != 0 and none == 0, output

    # The disk of the store has no room for the largest log.
    store.start(limit=sorted(path.stat().st_size for path in chosen)[-2])
    code, output, some = ended(upload(service(logs), *QUICK))
    assert code != 0, output
    store.stop()
    store.start()
    code, output, rest = ended(upload(service(logs), *QUICK))
    assert code == 0, output
    assert store.names() == ours
    assert all(same(logs / path.name, arrived / path.name) for path in chosen)
    assert ended(upload(service(logs), *QUICK))[::2] == (0, 0)
    # Whatever had arrived was not copied again; the two on their way when it was killed may have been, or may have arrived before it
    # had reported it.
    assert len(ours) - 2 <= copied + some + rest <= len(ours) + 2

    grown = logs / chosen[0].name
    grown.write_bytes(grown.read_bytes() + b"more")
    old(logs)
    code, output, again = ended(upload(service(logs), *QUICK))
    assert (code, again) == (0, 2), output
    assert same(grown, arrived / grown.name) and (arrived / "writing.tlog").exists()


def test_a_dataset_in_a_bucket_is_whole_at_any_time(
    march: Month, store: Store, upload: Upload, export: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: pathlib.Path
) -> None:
    whole = (march.folder / "arm-02.tlog").read_bytes()
    growing = tmp_path / "growing.tlog"
    growing.write_bytes(whole[: len(whole) // 2])
    for name in ("arm-00.tlog", "head-1-00.tlog"):
        shutil.copy(march.folder / name, tmp_path)
    assert export(tmp_path, "growing.tlog", "arm-00.tlog", "head-1-00.tlog").returncode == 1
    commands = [line for line in PAGE.splitlines() if line.startswith("rclone copy logs") or line.startswith("rclone sync logs")]
    assert len(commands) == 3

    def there() -> set[str]:
        return {path.relative_to(tmp_path / "logs").as_posix() for path in (tmp_path / "logs").rglob("*") if path.is_file()} - {"_tmp/lock"}

    def arrived() -> set[str]:
        return {name.removeprefix("bucket/logs/") for name in store.names()}

    def rows(dataset: pathlib.Path) -> int:
        return pl.scan_parquet(dataset / "servo/**/*.parquet", hive_partitioning=True).select(pl.len()).collect().item()

    for command in commands:
        assert ended(upload(command))[0] == 0
    assert arrived() == there()
    before = rows(store.folder / "bucket/logs")
    growing.write_bytes(whole)
    assert export(tmp_path, "growing.tlog").returncode == 0
    for command in commands:
        code, output, _ = ended(upload(command))
        assert code == 0, output
    # A former state of a log is in the bucket no longer, or its rows would be there twice.
    assert arrived() == there()
    assert rows(store.folder / "bucket/logs") == rows(tmp_path / "logs") > before
