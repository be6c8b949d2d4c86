"""Spark and Ray read the dataset as the page shows, and agree with DuckDB: rows, types, nulls and sums of every column of every table.

They are a gigabyte and minutes, so this runs on demand (`KHZ_SLOW=1`), in an environment that has them: docs/releasing.md.
"""

import datetime
import math
import os
import re
from typing import Any

import duckdb
import pytest
from conftest import ROOT, Month

pytestmark = [
    pytest.mark.skipif("KHZ_SLOW" not in os.environ, reason="Spark and Ray take minutes: set KHZ_SLOW=1"),
    pytest.mark.timeout(900),
]

PAGE = (ROOT / "docs/datasets.md").read_text()
#: Of a type: how DuckDB, Spark and Ray (Arrow) call it.
TYPES = {
    "BIGINT": ("bigint", "int64"),
    "DOUBLE": ("double", "double"),
    "FLOAT": ("float", "float"),
    "VARCHAR": ("string", "string"),
    "BOOLEAN": ("boolean", "bool"),
    "DATE": ("string", "string"),
    "TIMESTAMP WITH TIME ZONE": ("timestamp", "timestamp[us, tz=UTC]"),
}

Column = dict[str, tuple[Any, ...]]


def snippet(first: str, table: str) -> str:
    """A block of the page, for another table."""
    found = next(block for block in re.findall(r"```\w*\n(.*?)```", PAGE, re.S) if block.startswith(first))
    return found.replace("logs/servo", f"logs/{table}")


def tables(march: Month) -> list[str]:
    return sorted(path.name for path in (march.folder / "logs").iterdir() if not path.name.startswith("_"))


def in_duckdb(table: str) -> tuple[dict[str, str], Column]:
    """Types, and of each column: rows, nulls, and the sum of its numbers or what its texts come to."""
    source = f"read_parquet('logs/{table}/*/*/*.parquet', union_by_name = true, hive_types = {{'robot': VARCHAR, 'day': DATE}})"
    duckdb.execute("SET TimeZone = 'UTC'")
    types = {name: str(kind) for name, kind, *_ in duckdb.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    known: Column = {}
    for name, kind in types.items():
        known[name] = duckdb.execute(f'SELECT count(*), count("{name}"), {about(kind)} FROM {source}'.replace("$", f'"{name}"')).fetchone() or ()
    return types, known


def about(kind: str) -> str:
    if kind in ("VARCHAR",):
        return "sum(length($)), min($), max($)"
    if kind in ("BOOLEAN",):
        return "sum(CAST($ AS BIGINT)), 0, 0"
    if kind in ("BIGINT", "DOUBLE", "FLOAT"):
        return "sum(CAST($ AS DOUBLE)), min($), max($)"
    return "0, CAST(min($) AS VARCHAR), CAST(max($) AS VARCHAR)"


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    def close(a: Any, b: Any) -> bool:
        if isinstance(a, float) and b is not None:
            return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
        return bool(a == b)

    return len(one) == len(other) and all(close(a, b) for a, b in zip(one, other, strict=True))


def test_spark_agrees(march: Month, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.chdir(march.folder)
    monkeypatch.setenv("TZ", "America/Lima")
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        for table in tables(march):
            types, known = in_duckdb(table)
            names: dict[str, Any] = {"spark": spark}
            exec(snippet("spark.conf", table), names)
            frame = names["servo"]
            assert {name: kind for name, kind in frame.dtypes} == {name: TYPES[kind][0] for name, kind in types.items()}, table
            frame.createOrReplaceTempView("found")
            for name, kind in types.items():
                words = about(kind).replace("CAST(min($) AS VARCHAR)", "CAST(min($) AS STRING)")
                words = words.replace("CAST(max($) AS VARCHAR)", "CAST(max($) AS STRING)").replace("$", f"`{name}`")
                found = tuple(spark.sql(f"SELECT count(*), count(`{name}`), {words} FROM found").collect()[0])
                expected = known[name]
                if kind == "TIMESTAMP WITH TIME ZONE":
                    expected = tuple(value.removesuffix("+00") if isinstance(value, str) else value for value in expected)
                assert same(expected, found), (table, name, expected, found)
    finally:
        spark.stop()


def test_ray_agrees(march: Month, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    import pyarrow
    import pyarrow.compute as pc

    monkeypatch.chdir(march.folder)
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=1 << 30, log_to_driver=False)
    try:
        for table in tables(march):
            types, known = in_duckdb(table)
            names: dict[str, Any] = {}
            exec(snippet("import ray", table), names)
            whole = pyarrow.concat_tables(list(names["servo"].iter_batches(batch_format="pyarrow", batch_size=None)), promote_options="permissive")
            assert set(whole.column_names) == set(types), table
            for name, kind in types.items():
                column = whole[name]
                assert str(column.type) in (TYPES[kind][1], "string") or column.null_count == len(column), (table, name, column.type)
                rows, some, total, least, greatest = known[name]
                assert (len(column), len(column) - column.null_count) == (rows, some), (table, name)
                if kind in ("BIGINT", "DOUBLE", "FLOAT"):
                    found = pc.sum(column.cast(pyarrow.float64())).as_py()
                    assert same((total,), (found,)), (table, name, total, found)
                elif kind == "VARCHAR" and some:
                    assert (pc.min(column).as_py(), pc.max(column).as_py()) == (least, greatest), (table, name)
                elif kind == "DATE" and some:
                    assert (datetime.date.fromisoformat(pc.min(column).as_py())).isoformat() == least
    finally:
        ray.shutdown()
