"""Exported logs read back by the official Python packages of MCAP and Parquet."""

import io
import json
import math
import pathlib
from collections.abc import Callable

import moteus.reader
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


@pytest.fixture
def log_with_units(run_khz: Run, tmp_path: pathlib.Path) -> pathlib.Path:
    """The log of a short run of the emulated quadruped."""
    path = tmp_path / "run.tlog"
    robot = pathlib.Path(__file__).resolve().parent.parent.parent / "robots" / "quadruped.toml"
    done = run_khz("run", str(robot), "--virtual", "--duration", "0.2s", "--log", str(path), "--no-report")
    assert path.is_file(), done.stderr
    return path


def mcap_messages(path: pathlib.Path) -> list[tuple[str, int, object]]:
    with path.open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        found = reader.iter_decoded_messages()
        return [(channel.topic, message.log_time, decoded) for _, channel, message, decoded in found]


def test_mcap_has_every_type(run_khz: Run, log: Callable[[str], pathlib.Path]) -> None:
    path = log("c")
    done = run_khz("log", "export", str(path), "--format", "mcap", "--exact-integers")
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


def test_mcap_has_no_integer_that_plotjuggler_stops_at(
    run_khz: Run, log: Callable[[str], pathlib.Path]
) -> None:
    path = log("c")
    done = run_khz("log", "export", str(path), "--format", "mcap")
    assert done.returncode == 0, done.stderr
    [(_, _, message)] = mcap_messages(path.with_suffix(".mcap"))
    assert (message.vu, type(message.vu), list(message.ar)) == (300.0, float, [7, 8, 9])
    assert message.en == 200


def test_mcap_has_the_units_of_our_fields(run_khz: Run, log_with_units: pathlib.Path) -> None:
    done = run_khz("log", "export", str(log_with_units), "--format", "mcap")
    assert done.returncode == 0, done.stderr
    path = log_with_units.with_suffix(".mcap")
    with path.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    servo = next(channel for channel in summary.channels.values() if channel.topic == "/servo")
    assert servo.metadata["unit.front_left_hip.position"] == "rad"
    assert servo.metadata["unit.front_left_hip.torque"] == "N·m"
    assert "float32 velocity  # [rad/s]\n" in summary.schemas[servo.schema_id].data.decode()
    # The definitions can still be read.
    assert any(topic == "/servo" and message.front_left_hip.voltage > 0 for topic, _, message in mcap_messages(path))


def test_parquet_columns_have_the_units_of_our_fields(run_khz: Run, log_with_units: pathlib.Path) -> None:
    done = run_khz("log", "export", str(log_with_units), "--format", "parquet")
    assert done.returncode == 0, done.stderr
    folder = log_with_units.with_suffix(".parquet")
    table = pyarrow.parquet.read_table(folder / "servo.parquet")
    unit = {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in table.schema}
    assert (unit["front_left_hip.position"], unit["front_left_hip.temperature"]) == ("rad", "°C")
    assert (unit["front_left_hip.age_us"], unit["front_left_hip.mode"], unit["time"]) == ("us", "", "")
    imu = pyarrow.parquet.read_schema(folder / "imu.parquet")
    assert imu.field("acceleration.2").metadata == {b"unit": "m/s²".encode()}


def varuint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def schemas(log: bytes) -> dict[str, bytes]:
    """The schemas of a log, by the names of their records."""
    found, at = {}, len("TLOG0003") + 1
    while at < len(log):
        kind, at = varuint(log, at)
        size, at = varuint(log, at)
        if kind == 1:
            _, name_at = varuint(log, at)
            length, name_at = varuint(log, name_at + 1)
            end = name_at + length
            found[log[name_at:end].decode()] = log[end : at + size]
        at += size
    return found


def test_the_original_reader_takes_units_for_the_aliases_they_are(log_with_units: pathlib.Path) -> None:
    stream = io.BytesIO(schemas(log_with_units.read_bytes())["servo"])
    servo = moteus.reader.Type.from_binary(moteus.reader.Stream(stream))
    assert stream.read() == b""
    position, velocity = servo.fields[0].type_class.fields[:2]
    assert (position.name, position.aliases) == ("position", ["unit:rad"])
    assert (velocity.name, velocity.aliases) == ("velocity", ["unit:rad/s"])


def test_parquet_types_are_the_same_with_and_without_arrow_metadata(
    run_khz: Run, log: Callable[[str], pathlib.Path]
) -> None:
    path = log("c")
    assert run_khz("log", "export", str(path), "--format", "parquet").returncode == 0
    file = path.with_suffix(".parquet") / "all.parquet"
    with_arrow = pyarrow.parquet.read_schema(file)
    without = pyarrow.parquet.ParquetFile(file).metadata.schema
    physical = {without.column(i).name: without.column(i).physical_type for i in range(len(without.names))}
    kinds = {"bool": "BOOLEAN", "int64": "INT64", "uint64": "INT64", "float": "FLOAT", "double": "DOUBLE"}
    kinds |= {"binary": "BYTE_ARRAY", "string": "BYTE_ARRAY", "timestamp[us, tz=UTC]": "INT64"}
    assert {field.name: kinds[str(field.type)] for field in with_arrow} == physical
