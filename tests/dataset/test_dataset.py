"""The dataset of a month of logs, read by DuckDB and Polars: the answers of docs/datasets.md, and that the engines agree."""

import datetime
import json
import os
import pathlib
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet
import pytest
from conftest import ROOT, Month
from month import CAUSES, DRY, PERIOD_MS, RISE, RISES_AT

PAGE = ROOT / "docs/datasets.md"
PINNED = json.loads((ROOT / "vectors/dataset.json").read_text())
QUERY = re.compile(r"```sql\n(?P<sql>.*?)```(?P<between>\n+```text\n)?(?P<answer>(?(between).*?|))(?(between)```|)", re.S)

Export = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def database(march: Month, monkeypatch: pytest.MonkeyPatch) -> duckdb.DuckDBPyConnection:
    """DuckDB in the folder of the month, with the views of the page."""
    monkeypatch.chdir(march.folder)
    database = duckdb.connect()
    views = QUERY.search(PAGE.read_text())
    assert views is not None
    database.execute(views["sql"])
    return database


def table(database: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The answer as the page shows it."""
    answer = database.execute(sql)
    rows = [[str(column[0]) for column in answer.description or []]]
    rows += [["-" if cell is None else str(cell) for cell in row] for row in answer.fetchall()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def asked(title: str) -> str:
    """The first query below a heading of the page."""
    found = QUERY.search(PAGE.read_text().split(f"### {title}\n", 1)[1])
    assert found is not None
    return found["sql"]


def test_the_answers_of_the_page_are_those_of_the_dataset(database: duckdb.DuckDBPyConnection) -> None:
    text = PAGE.read_text()
    queries = [found for found in QUERY.finditer(text) if found["between"]]
    assert len(queries) == 7
    answers = [table(database, found["sql"]) for found in queries]
    if os.environ.get("UPDATE"):
        for found, answer in reversed(list(zip(queries, answers, strict=True))):
            text = text[: found.start("answer")] + answer + text[found.end("answer") :]
        PAGE.write_text(text)
    for found, answer in zip(queries, answers, strict=True):
        assert found["answer"] == answer or os.environ.get("UPDATE"), f"{found['sql']}\nUPDATE=1 writes what it answers"


def test_late_ticks_are_those_of_the_scripts(march: Month, database: duckdb.DuckDBPyConnection) -> None:
    known: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for log in march.logs:
        for tick, late_ms, cause in log.late:
            planned = log.begins + datetime.timedelta(milliseconds=(tick + 1) * PERIOD_MS + late_ms)
            at = planned.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
            known.setdefault((log.robot, cause), []).append((at, round(late_ms * 1000)))
    rows = database.execute(asked("Which ticks were late, why, and when last?")).fetchall()
    expected = {key: (len(all_of), *max(all_of)) for key, all_of in known.items()}
    assert {(robot, cause): tuple(rest) for robot, cause, *rest in rows} == expected
    assert {cause for _, cause in expected} == set(CAUSES)


def test_temperatures_are_those_of_the_robot_files(march: Month, database: duckdb.DuckDBPyConnection) -> None:
    rows = database.execute(asked("How warm were the servos this month?")).fetchall()
    for robot, *figures in rows:
        # All logs of a robot are equally long.
        of_logs = sorted(log.ambient for log in march.logs if log.robot == robot)
        rank = lambda share: of_logs[-(-len(of_logs) * share // 100) - 1]  # noqa: E731
        assert figures == [rank(50), rank(95), rank(99), of_logs[-1]], robot
    assert len(rows) == 3


def test_friction_rises_when_the_robot_file_says(march: Month, database: duckdb.DuckDBPyConnection) -> None:
    sql = asked("When did the friction of joint 7 begin to rise?")
    [(number, since, friction, usual)] = database.execute(sql).fetchall()
    first = next(log for log in march.logs if log.friction > DRY)
    assert (first.robot, first.number, first.friction) == ("arm", RISES_AT, DRY + RISE)
    assert (number, since) == (RISES_AT + 1, first.begins.strftime("%Y-%m-%d %H:%M"))
    assert friction == pytest.approx(first.friction, rel=0.05) and usual == pytest.approx(DRY, rel=0.05)
    # And for every log it is what its robot file has.
    every = sql[: sql.index("), baseline")] + ") SELECT dry FROM friction ORDER BY begins"
    dry = [row[0] for row in database.execute(every).fetchall()]
    assert dry == pytest.approx([log.friction for log in march.logs if log.robot == "arm"], rel=0.05)


def in_duckdb(database: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    database.execute(
        f"CREATE OR REPLACE VIEW one AS FROM read_parquet('logs/{name}/**/*.parquet', hive_types = {{'robot': VARCHAR, 'day': DATE}})"
    )
    columns = {row[0]: row[1] for row in database.execute("DESCRIBE one").fetchall()}
    sums = {"rows": "count(*)", "robots": "count(DISTINCT robot)", "last": "epoch_us(max(time))"}
    for column, kind in columns.items():
        quoted = f'"{column}"'
        if kind in {"FLOAT", "DOUBLE"}:
            sums[column] = f"sum({quoted}::DOUBLE) FILTER (NOT isnan({quoted}))"
        elif kind == "BIGINT":
            sums[column] = f"sum({quoted})::BIGINT"
        elif kind == "BOOLEAN":
            sums[column] = f"count_if({quoted})"
        elif kind == "VARCHAR":
            sums[column] = f"count(DISTINCT {quoted})"
    row = database.execute(f"SELECT {', '.join(sums.values())} FROM one").fetchone()
    assert row is not None
    return dict(zip(sums, row, strict=True)) | {"types": columns}


def in_polars(name: str) -> dict[str, Any]:
    frame = pl.scan_parquet(f"logs/{name}/**/*.parquet", hive_schema={"robot": pl.String, "day": pl.Date})
    columns = dict(frame.collect_schema())
    words = {
        pl.Float32(): "FLOAT", pl.Float64(): "DOUBLE", pl.Int64(): "BIGINT", pl.Boolean(): "BOOLEAN", pl.String(): "VARCHAR",
        pl.Date(): "DATE", pl.Datetime("us", "UTC"): "TIMESTAMP WITH TIME ZONE", pl.Binary(): "BLOB",
    }  # fmt: skip
    sums = {"rows": pl.len(), "robots": pl.col("robot").n_unique(), "last": pl.col("time").max().dt.epoch("us")}
    for column, kind in columns.items():
        col = pl.col(column)
        if kind.is_float():
            sums[column] = col.filter(col.is_not_nan()).cast(pl.Float64).sum()
        elif kind in {pl.Int64, pl.Boolean}:
            sums[column] = col.sum()
        elif kind == pl.String:
            sums[column] = col.drop_nulls().n_unique()
    row = frame.select(**{f"{name}!": expression for name, expression in sums.items()}).collect().row(0)
    return dict(zip(sums, row, strict=True)) | {"types": {name: words[kind] for name, kind in columns.items()}}


@pytest.mark.parametrize("name", ["tick", "servo", "command", "event", "robot", "recorder"])
def test_duckdb_and_polars_agree(database: duckdb.DuckDBPyConnection, name: str) -> None:
    one, other = in_duckdb(database, name), in_polars(name)
    assert dict(sorted(one.pop("types").items())) == dict(sorted(other.pop("types").items()))
    assert one["rows"] > 0 and one["robots"] == 3
    assert one == pytest.approx(other, rel=1e-9, nan_ok=True)


def test_every_table_has_the_pinned_types(march: Month) -> None:
    words = {"timestamp[us, tz=UTC]": "timestamp", "string": "text", "float": "float32", "double": "float64"}
    seen = set()
    for path in march.folder.glob("logs/[!_]*/*/*/*.parquet"):
        name = path.relative_to(march.folder / "logs").parts[0]
        schema = pyarrow.parquet.read_schema(path)
        columns = [[field.name, words.get(str(field.type), str(field.type))] for field in schema]
        if name in PINNED:
            assert columns == PINNED[name], path
            seen.add(name)
        assert columns == json.loads((march.folder / f"logs/_tables/{name}.json").read_text()), path
    assert seen == {"tick", "servo", "command", "event", "robot"}
    servo = next(march.folder.glob("logs/servo/*/*/*.parquet"))
    units = {field.name: field.metadata for field in pyarrow.parquet.read_schema(servo)}
    assert units["temperature"] == {b"unit": "°C".encode()} and units["torque"] == {b"unit": "N·m".encode()}


def test_the_same_logs_again_change_nothing(march: Month, export: Export, tmp_path: pathlib.Path) -> None:
    def state() -> dict[pathlib.Path, tuple[int, int]]:
        files = [path for path in march.folder.glob("logs/**/*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}

    before = state()
    (march.folder / "another-name.tlog").write_bytes((march.folder / "arm-07.tlog").read_bytes())
    done = export(march.folder, *(log.name for log in march.logs), "another-name.tlog")
    assert done.returncode == 0 and done.stdout.count("already in\n") == len(march.logs) + 1
    assert state() == before
    counted = Counter(path.suffix for path in before)
    assert counted[".json"] == len(march.logs) + 7 and counted[".part"] == 0
