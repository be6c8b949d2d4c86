"""Logs and machines in trouble: what is in the dataset is right all the same."""

import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import duckdb
import month
import polars as pl
import pytest
from conftest import ROOT, Month

Export = Callable[..., "subprocess.CompletedProcess[str]"]

SOME = ["arm-00.tlog", "arm-01.tlog", "arm-02.tlog", "head-1-00.tlog", "head-1-03.tlog", "head-2-00.tlog"]


@pytest.fixture
def folder(march: Month, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with some logs of the month, and no dataset."""
    for name in SOME:
        shutil.copy(march.folder / name, tmp_path)
    return tmp_path


def rows(folder: pathlib.Path, table: str = "*") -> dict[str, int]:
    """The rows of each file of the dataset. Every file can be read."""
    found = duckdb.execute(
        f"SELECT filename, count(*) FROM read_parquet('{folder}/logs/[!_]*/*/*/*.parquet', filename = true, union_by_name = true) "
        "GROUP BY ALL"
    ).fetchall()
    names = {str(pathlib.Path(name).relative_to(folder / "logs")): count for name, count in found}
    return {name: count for name, count in names.items() if table in {"*", name.split("/")[0]}}


def of_month(march: Month, names: list[str]) -> dict[str, int]:
    """The same of these logs, as the manifests of the whole month have them."""
    manifests = [json.loads(path.read_text()) for path in march.folder.glob("logs/_manifest/*.json")]
    chosen = [manifest for manifest in manifests if manifest["source"]["name"] in names]
    return {file["path"]: file["rows"] for manifest in chosen for file in manifest["files"]}


def is_clean(folder: pathlib.Path) -> bool:
    return [path.name for path in (folder / "logs/_tmp").iterdir()] == ["lock"]


def test_a_log_that_grows_replaces_its_former_state(march: Month, folder: pathlib.Path, export: Export) -> None:
    whole = (folder / "arm-02.tlog").read_bytes()
    growing, counts = folder / "growing.tlog", []
    for size in [len(whole) // 3, len(whole) * 3 // 4, len(whole)]:
        growing.write_bytes(whole[:size])
        done = export(folder, "growing.tlog")
        assert done.returncode == (0 if size == len(whole) else 1), done.stderr
        assert ("in the place of its former state" in done.stdout) == bool(counts), done.stdout
        assert ("the log ends inside this block" in done.stderr) == (size < len(whole)), done.stderr
        assert "does not name" not in done.stderr
        counts.append(sum(rows(folder).values()))
    assert counts == sorted(counts) and len(set(counts)) == 3
    assert rows(folder) == of_month(march, ["arm-02.tlog"])
    growing.write_bytes(whole[: len(whole) // 2])
    done = export(folder, "growing.tlog")
    assert "all of it is already in" in done.stdout
    assert rows(folder) == of_month(march, ["arm-02.tlog"])


def test_a_log_that_was_repaired_is_not_in_twice(khz: str, folder: pathlib.Path, export: Export) -> None:
    whole = (folder / "arm-02.tlog").read_bytes()
    (folder / "cut.tlog").write_bytes(whole[: len(whole) * 2 // 3])
    assert export(folder, "cut.tlog").returncode == 1
    subprocess.run([khz, "log", "repair", "cut.tlog", "-o", "repaired.tlog"], cwd=folder, capture_output=True)
    done = export(folder, "repaired.tlog")
    assert done.returncode == 0, done.stderr
    assert len(rows(folder, "servo")) == 1


def test_a_killed_export_is_made_good_by_the_next(march: Month, khz: str, folder: pathlib.Path, export: Export) -> None:
    words = [khz, "log", "export", *SOME, "--format", "dataset", "-o", "logs"]
    for ms in range(5, 200, 15):
        process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(ms / 1000)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if list(folder.glob("logs/[!_]*/*/*/*.parquet")):
            known = of_month(march, SOME)
            assert all(known[name] == count for name, count in rows(folder).items())
    assert export(folder, *SOME).returncode == 0
    # An export that has something to do clears away what the killed ones have left.
    shutil.copy(march.folder / "arm-03.tlog", folder)
    assert export(folder, "arm-03.tlog").returncode == 0
    assert rows(folder) == of_month(march, [*SOME, "arm-03.tlog"]) and is_clean(folder)


def test_exports_at_the_same_time_do_not_disturb_each_other(march: Month, khz: str, folder: pathlib.Path) -> None:
    words = [khz, "log", "export", "--format", "dataset", "-o", "logs"]
    orders = [SOME, SOME, SOME[::-1], SOME[3:] + SOME[:3]]
    all_of_them = [
        subprocess.Popen([*words, *order], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for order in orders
    ]
    for process in all_of_them:
        _, output = process.communicate(timeout=60)
        assert process.returncode == 0, output
    assert rows(folder) == of_month(march, SOME) and is_clean(folder)


def test_a_full_disk_is_reported_and_leaves_a_dataset(march: Month, khz: str, folder: pathlib.Path, export: Export) -> None:
    assert export(folder, "head-1-00.tlog").returncode == 0

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    words = [khz, "log", "export", *SOME, "--format", "dataset", "-o", "logs"]
    done = subprocess.run(words, cwd=folder, preexec_fn=small, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "File too large" in done.stderr and "arm-00.tlog" in done.stderr, done.stderr
    assert rows(folder) == of_month(march, ["head-1-00.tlog"])
    assert export(folder, *SOME).returncode == 0
    assert rows(folder) == of_month(march, SOME) and is_clean(folder)


def test_what_is_no_log_stops_no_other(march: Month, folder: pathlib.Path, export: Export) -> None:
    (folder / "notes.txt").write_text("no log")
    done = export(folder, "notes.txt", "none.tlog", *SOME)
    assert done.returncode == 2 and "notes.txt" in done.stderr and "none.tlog" in done.stderr, done.stderr
    assert "2 of 8 logs could not be read" in done.stderr
    assert rows(folder) == of_month(march, SOME)


@pytest.mark.parametrize("name", ["a=b/../c", "..", "7", "größe %2F", "__HIVE_DEFAULT_PARTITION__"])
def test_robots_keep_their_names(player: pathlib.Path, tmp_path: pathlib.Path, export: Export, name: str) -> None:
    # A run across midnight is of the day on which it begins.
    begins = datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    log = replace(month.month()[-1], robot="x", begins=begins)
    text = month.robot_file(log).replace('name = "x"', f'name = "{name}"')
    month.make(player, tmp_path, log, text)
    done = export(tmp_path, log.name)
    assert done.returncode == 0, done.stderr
    types = "hive_types = {'robot': VARCHAR, 'day': DATE}"
    found = duckdb.execute(
        f"SELECT DISTINCT robot, day::VARCHAR, file_robot FROM (SELECT robot, day, name AS file_robot FROM "
        f"read_parquet('{tmp_path}/logs/robot/*/*/*.parquet', {types}))"
    ).fetchall()
    assert found == [(name, "2026-02-28", name)]
    assert {path.name for path in tmp_path.iterdir()} == {"logs", log.name, "x-29.toml", "x-29.json"}


def test_a_log_that_names_no_robot_has_none_or_the_one_it_is_given(tmp_path: pathlib.Path, khz: str) -> None:
    lines = (ROOT / "vectors/tlog/c.hex").read_text(encoding="utf-8").splitlines()
    (tmp_path / "c.tlog").write_bytes(bytes.fromhex(" ".join(line.split("#")[0] for line in lines)))
    for folder, more, robot in [("none", [], None), ("given", ["--robot", "r2"], "r2")]:
        words = [khz, "log", "export", "c.tlog", "--format", "dataset", "-o", folder, *more]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and ("does not name its robot" in done.stderr) == (robot is None), done.stderr
        table = f"read_parquet('{tmp_path}/{folder}/all/*/*/*.parquet')"
        row = duckdb.execute(f"SELECT robot, day::VARCHAR, bo, i2, st, ob_x, en, fa_1, du FROM {table}").fetchall()
        assert row == [(robot, "2020-03-10", True, -2, "hi", False, "B", 1, -1_500_000)]


T0 = 1_772_352_000_000_000
"""2026-03-01 08:00 UTC, µs."""


def mine(*names: str) -> bytes:
    """A log with one sample of the record `mine`, which has integers of these names: 1, 2 and so on."""

    def block(kind: bytes, body: bytes) -> bytes:
        assert len(body) < 128
        return kind + bytes([len(body)]) + body

    fields = b"".join(b"\0" + bytes([len(name)]) + name.encode() + b"\0\x03\x08\0" for name in names)
    schema = b"\x10\0" + fields + bytes(5)
    record = block(b"\x01", b"\x01\0\x04mine" + schema)
    payload = struct.pack(f"<{len(names)}q", *range(1, len(names) + 1))
    head = b"\x01\x06" + struct.pack("<q", T0 + 86_400_000_000 * len(names))
    empty = block(b"\x02", head + bytes(4) + payload)
    at = 2 + len(head)
    crc = struct.pack("<I", zlib.crc32(empty))
    return b"TLOG0003\0" + record + empty[:at] + crc + empty[at + 4 :]


def test_polars_reads_columns_that_were_added_later(tmp_path: pathlib.Path, export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in docs/datasets.md."""
    for names in ["a", "ab", "abc"]:
        (tmp_path / f"{names}.tlog").write_bytes(mine(*names))
    done = export(tmp_path, "a.tlog", "ab.tlog", "abc.tlog")
    assert len(list((tmp_path / "logs/mine").glob("*/*"))) == 3, done.stderr
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/datasets.md").read_text(encoding="utf-8")
    [advice] = [block.split("```")[0] for block in page.split("```python\n")[1:] if "diagonal" in block.split("```")[0]]
    names: dict[str, pl.LazyFrame] = {}
    exec(advice, names)
    rows = names["mine"].sort("day").select("robot", "a", "b", "c").collect().rows()
    assert rows == [(None, 1, None, None), (None, 1, 2, None), (None, 1, 2, 3)]
    # Why the page does not leave it at this.
    with pytest.raises(pl.exceptions.SchemaError, match="extra column in file"):
        pl.scan_parquet("logs/mine/**/*.parquet", missing_columns="insert").collect()


def test_a_pipe_is_refused_and_the_other_logs_go_in(march: Month, folder: pathlib.Path, export: Export) -> None:
    os.mkfifo(folder / "pipe.tlog")
    done = export(folder, "pipe.tlog", *SOME)
    assert done.returncode == 2 and done.stderr.count("no regular file") == 1, done.stderr
    assert rows(folder) == of_month(march, SOME)


def test_a_damaged_copy_is_reported_with_the_log_it_is_like(folder: pathlib.Path, export: Export) -> None:
    whole = bytearray((folder / "arm-02.tlog").read_bytes())
    whole[len(whole) // 2] ^= 255
    (folder / "damaged.tlog").write_bytes(whole)
    done = export(folder, "arm-02.tlog", "damaged.tlog")
    assert done.returncode == 1 and "count twice" in done.stderr and "(arm-02.tlog)" in done.stderr, done.stderr


def test_a_robot_for_a_log_that_is_in_is_not_used(khz: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tlog").write_bytes(mine("a"))
    words = [khz, "log", "export", "a.tlog", "--format", "dataset", "-o", "logs", "--robot"]
    first, second = [
        subprocess.run([*words, name], cwd=tmp_path, capture_output=True, text=True, timeout=60) for name in ["one", "two"]
    ]
    assert "one" in first.stdout and "not used" not in first.stderr
    assert "one" in second.stdout and "--robot two is not used: the log was in before" in second.stderr, second.stderr


def test_a_folder_of_others_is_refused_once(folder: pathlib.Path, export: Export) -> None:
    (folder / "logs").mkdir()
    (folder / "logs/notes").write_text("mine")
    done = export(folder, SOME[0])
    assert done.returncode == 2 and done.stderr.count("is not empty and no dataset") == 1, done.stderr
    assert [path.name for path in (folder / "logs").iterdir()] == ["notes"]
