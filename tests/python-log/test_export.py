"""Exported logs read back by the official Python packages of MCAP and Parquet."""

import json
import math
import pathlib
from collections.abc import Callable

import pyarrow.parquet
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

VECTORS = pathlib.Path(__file__).resolve().parent.parent.parent / "vectors" / "tlog"
T0 = 1_583_798_400_000_000

Run = Callable[..., "object"]


@pytest.fixture
def log(tmp_path: pathlib.Path) -> Callable[[str], pathlib.Path]:
    """Makes a log of a vector."""

    def make(name: str) -> pathlib.Path:
        lines = (VECTORS / f"{name}.hex").read_text(encoding="utf-8").splitlines()
        path = tmp_path / f"{name}.tlog"
        path.write_bytes(bytes.fromhex(" ".join(line.split("#")[0] for line in lines)))
        return path

    return make


def mcap_messages(path: pathlib.Path) -> list[tuple[str, int, object]]:
    with path.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        found = reader.iter_decoded_messages()
        return [(channel.topic, message.log_time, decoded) for _, channel, message, decoded in found]


def test_mcap_has_every_type(run_khz: Run, log: Callable[[str], pathlib.Path]) -> None:
    path = log("c")
    done = run_khz("log", "export", str(path), "--format", "mcap")
    assert done.returncode == 0, done.stderr
    [(topic, time_ns, message)] = mcap_messages(path.with_suffix(".mcap"))
    assert (topic, time_ns) == ("/all", T0 * 1000)
    assert message.bo is True
    assert (message.i2, message.u4, message.vu) == (-2, 0x01020304, 300)
    assert (message.f4, message.f8) == (1.5, -0.5)
    assert (bytes(message.by), message.st) == (b"\x0a\x0b", "hi")
    assert message.ob.x is False
    assert (message.en, message.EN_B if hasattr(message, "EN_B") else 200) == (200, 200)
    assert (list(message.ar), list(message.fa), list(message.un)) == ([7, 8, 9], [-1, 1], [2.0])
    assert (message.ts.sec, message.ts.nanosec) == (T0 // 1_000_000, 0)
    assert (message.du.sec, message.du.nanosec) == (-2, 500_000_000)
    assert [(entry.key, entry.value) for entry in message.ma.entries] == [("k1", 1), ("k2", 2)]


def test_mcap_has_every_sample(run_khz: Run, log: Callable[[str], pathlib.Path]) -> None:
    path = log("b")
    assert run_khz("log", "export", str(path), "--format", "mcap").returncode == 0
    messages = mcap_messages(path.with_suffix(".mcap"))
    assert [topic for topic, _, _ in messages] == ["/txt", "/st", "/st", "/txt"]
    assert [(time - T0 * 1000) // 1_000_000 for _, time, _ in messages] == [0, 500, 1000, 1200]
    assert messages[0][2].value == "a" * 40
    assert (list(messages[1][2].q), messages[1][2].m) == ([1.0, -2.5], 5)


def test_parquet_has_every_column(run_khz: Run, log: Callable[[str], pathlib.Path]) -> None:
    path = log("c")
    done = run_khz("log", "export", str(path), "--format", "parquet")
    assert done.returncode == 0, done.stderr
    table = pyarrow.parquet.read_table(path.with_suffix(".parquet") / "all.parquet")
    assert str(table.schema.field("time").type) == "timestamp[us, tz=UTC]"
    [row] = table.to_pylist()
    assert int(row.pop("time").timestamp() * 1e6) == T0
    expected = {
        "bo": True, "i2": -2, "u4": 0x01020304, "vu": 300, "f4": 1.5, "f8": -0.5, "by": b"\x0a\x0b",
        "st": "hi", "ob.x": False, "en": "B", "ar": "[7,8,9]", "fa.0": -1, "fa.1": 1, "un": 2.0, "ts": T0,
        "du": -1_500_000, "ma": '{"k1":1,"k2":2}',
    }  # fmt: skip
    assert row == expected


def test_parquet_and_json_agree(run_khz: Run, log: Callable[[str], pathlib.Path]) -> None:
    path = log("b")
    assert run_khz("log", "export", str(path), "--format", "parquet").returncode == 0
    rows = pyarrow.parquet.read_table(path.with_suffix(".parquet") / "st.parquet").to_pylist()
    lines = run_khz("log", "cat", str(path), "-r", "st").stdout.splitlines()
    values = [json.loads(line)["value"] for line in lines]
    assert [[row["q.0"], row["q.1"], row["m"]] for row in rows] == [[*v["q"], v["m"]] for v in values]
    assert not any(math.isnan(row["q.0"]) for row in rows)
