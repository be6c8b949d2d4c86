"""Logs read from Python: the golden logs, and what is wrong with others."""

import math
import struct
from pathlib import Path

import numpy as np
import pytest

import kilohertz

START_US = 1_583_798_400_000_000


def test_every_type_arrives_as_numpy_keeps_it(vector) -> None:
    with kilohertz.open_log(vector("c")) as log:
        assert log.keys() == ["all"]
        record = log["all"]
        expected = {
            "bo": (np.bool_, [True]),
            "i2": (np.int64, [-2]),
            "u4": (np.uint64, [0x01020304]),
            "vu": (np.uint64, [300]),
            "f4": (np.float32, [1.5]),
            "f8": (np.float64, [-0.5]),
            "en": (np.uint64, [200]),
            "ar": (np.uint64, [[7, 8, 9]]),
            "fa": (np.int64, [[-1, 1]]),
            "ts": (np.int64, [START_US]),
            "du": (np.int64, [-1_500_000]),
        }
        for field, (dtype, values) in expected.items():
            array = record[field]
            assert (array.dtype, array.tolist()) == (dtype, values), field
        assert list(record.time_us) == [START_US]
        assert record["by"] == [b"\x0a\x0b"]
        assert record["st"] == ["hi"]


def test_one_item_of_an_array(vector) -> None:
    with kilohertz.open_log(vector("c")) as log:
        assert log["all"]["ar"].shape == (1, 3)
        assert log["all"]["ar.1"].tolist() == log["all"]["ar"][:, 1].tolist()


def test_names_of_an_enum(vector) -> None:
    with kilohertz.open_log(vector("c")) as log:
        assert 200 in log["all"].names("en")
        assert log["all"].names("i2") == {}


def test_slices_of_time_are_half_open(vector) -> None:
    with kilohertz.open_log(vector("b")) as log:
        for name in log:
            record = log[name]
            everything = record.time_us
            if len(everything) == 0:
                continue
            assert len(record[0:].time_us) == len(everything)
            last = record.time[-1]
            assert (record[:last].time < last).all()
            assert (record[last:].time >= last).all()


def test_frames_have_one_column_for_each_value(vector) -> None:
    with kilohertz.open_log(vector("c")) as log:
        pandas = log["all"].to_pandas("f8", "ar")
        polars = log["all"].to_polars("f8", "ar")
    assert list(pandas.columns) == ["f8", "ar.0", "ar.1", "ar.2"]
    assert polars.columns == ["time", "f8", "ar.0", "ar.1", "ar.2"]
    assert pandas["f8"].tolist() == polars["f8"].to_list() == [-0.5]


def test_what_is_not_there_is_reported_with_what_is(vector) -> None:
    with kilohertz.open_log(vector("a")) as log:
        with pytest.raises(KeyError, match="there are: imu"):
            log["servo"]
        with pytest.raises(KeyError, match="there are: v"):
            log["imu"]["w"]


def test_a_closed_log_says_so(vector) -> None:
    log = kilohertz.open_log(vector("a"))
    record = log["imu"]
    log.close()
    with pytest.raises(kilohertz.ClosedError):
        record["v"]


def test_no_log_is_an_error_of_its_own(tmp_path) -> None:
    path = tmp_path / "no.tlog"
    path.write_bytes(b"not a log at all")
    with pytest.raises(kilohertz.LogError, match="no.tlog"):
        kilohertz.open_log(path)
    with pytest.raises(FileNotFoundError):
        kilohertz.open_log(tmp_path / "absent.tlog")


def test_a_log_cut_anywhere_gives_its_whole_samples_or_a_log_error(vector) -> None:
    whole = len(vector("a").read_bytes())
    for cut in range(whole):
        try:
            with kilohertz.open_log(vector("a", cut)) as log:
                if "imu" in log:
                    assert log["imu"]["v"].tolist() in ([], [258])
        except kilohertz.LogError:
            pass


def test_damage_costs_what_is_damaged_and_is_warned_of(vector) -> None:
    path = vector("b")
    data = bytearray(path.read_bytes())
    with kilohertz.open_log(path) as log:
        whole = log["st"]["q"].tolist()
    assert whole == [[1.0, -2.5], [0.5, 0.25]]
    data[data.index(bytes.fromhex("0000803f000020c005"))] ^= 0xFF
    path.write_bytes(data)
    with kilohertz.open_log(path) as log:
        with pytest.warns(RuntimeWarning, match="b.tlog: byte .*checksum"):
            assert log["st"]["q"].tolist() == whole[1:]
        # Another record's samples are not looked into.
        assert log["txt"][0:].time_us.tolist() == [START_US, START_US + 1_200_000]


def test_a_log_cut_inside_a_sample_gives_those_before(vector) -> None:
    with kilohertz.open_log(vector("b", 170)) as log:
        assert not log.finished
        assert log["st"]["q"].tolist() == [[1.0, -2.5], [0.5, 0.25]]
        assert log["txt"].time_us.tolist() == [START_US]


def made(path: Path, schema: bytes, *payloads: bytes, timeless: tuple[int, ...] = ()) -> Path:
    """A log with one record, `r`, a sample a millisecond, some of them without a time. Blocks by the format's description,
    without checksums."""

    def block(kind: int, body: bytes) -> bytes:
        assert len(body) < 128
        return bytes([kind, len(body)]) + body

    data = b"TLOG0003\0" + block(1, b"\1\0\1r" + schema)
    for n, payload in enumerate(payloads):
        time = b"\0" if n in timeless else b"\2" + (START_US + 1000 * n).to_bytes(8, "little")
        data += block(2, b"\1" + time + payload)
    path.write_bytes(data)
    return path


NULL, BOOL, I4, I8, U8, F4, F8 = b"\1", b"\2", b"\3\4", b"\3\x08", b"\4\x08", b"\7", b"\x08"
TEXT, VARUINT, STAMP = b"\x0a", b"\6", b"\x16"
EXACT = 2**53
"""Integers beyond it are not all float64."""


def an_object(**fields: bytes) -> bytes:
    return an_object_of(*fields.items())


def an_object_of(*fields: tuple[str, bytes]) -> bytes:
    each = [b"\0" + bytes([len(name)]) + name.encode() + b"\0" + ty + b"\0" for name, ty in fields]
    return b"\x10\0" + b"".join(each) + bytes(5)


def array(item: bytes) -> bytes:
    return b"\x12" + item


def fixed(length: int, item: bytes) -> bytes:
    return b"\x13" + bytes([length]) + item


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def i8(value: int) -> bytes:
    return struct.pack("<q", value)


def union(*members: bytes) -> bytes:
    return b"\x15" + b"".join(members) + b"\0"


def test_arrays_of_changing_length_are_a_list_of_arrays(tmp_path: Path) -> None:
    schema = an_object(list=b"\x12" + VARUINT)
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, b"\2\7\x08", b"\0", b"\1\x09")) as log:
        assert [values.tolist() for values in log["r"]["list"]] == [[7, 8], [], [9]]
        assert log["r"].to_pandas()["list"].map(list).tolist() == [[7, 8], [], [9]]
        assert log["r"].to_polars()["list"].to_list() == [[7, 8], [], [9]]


def test_maps_and_mixed_unions_are_not_missing(tmp_path: Path) -> None:
    schema = an_object(map=b"\x14" + VARUINT, mixed=union(VARUINT, TEXT, NULL))
    samples = b"\1\1k\5" + b"\0\7", b"\0" + b"\1\2hi", b"\0" + b"\2"
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        assert log["r"].fields == ["map", "mixed"]
        assert log["r"]["map"] == [{"k": 5}, {}, {}]
        assert log["r"]["mixed"] == [7, "hi", None]
        assert log["r"].to_pandas()["mixed"].tolist() == [7, "hi", None]
        assert log["r"].to_polars()["mixed"].to_list() == [7, "hi", None]


def test_optional_integers_keep_all_their_digits(tmp_path: Path) -> None:
    schema = an_object(id=union(NULL, b"\4\x08"))
    large = 2**63 + 1
    samples = b"\1" + (3).to_bytes(8, "little"), b"\0", b"\1" + large.to_bytes(8, "little")
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        assert log["r"]["id"] == [3, None, large]
        assert log["r"].to_pandas()["id"].tolist() == [3, None, large]
        assert log["r"].to_polars()["id"].to_list() == [3, None, large]
    with kilohertz.open_log(made(tmp_path / "b.tlog", schema, *samples[:2])) as log:
        np.testing.assert_array_equal(log["r"]["id"], [3.0, np.nan])


def test_units_of_the_fields_that_have_one(tmp_path: Path) -> None:
    rate = b"\0\4rate" + b"\1\x0aunit:rad/s" + F8 + b"\0"
    fresh = b"\0\5fresh" + b"\0" + b"\2" + b"\0"
    path = made(tmp_path / "a.tlog", b"\x10\0" + rate + fresh + bytes(5), bytes(9))
    with kilohertz.open_log(path) as log:
        assert log["r"].units == {"rate": "rad/s"}
        assert log["r"].to_pandas().attrs["units"] == {"rate": "rad/s"}


def test_a_field_name_with_a_dot_is_one_field(tmp_path: Path) -> None:
    schema = an_object(**{"a.b": F8, "a": an_object(c=F8)})
    sample = np.array([1.0, 2.0]).tobytes()
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, sample)) as log:
        assert log["r"].to_pandas().iloc[0].to_dict() == {"a.b": 1.0, "a.c": 2.0}


def test_a_field_called_time_does_not_replace_the_times(tmp_path: Path) -> None:
    sample = np.array([1.0, 2.0]).tobytes()
    with kilohertz.open_log(made(tmp_path / "a.tlog", an_object(time=F8, time_us=F8), sample)) as log:
        frame = log["r"].to_polars()
        assert frame.columns == ["time", "time_us_2", "time_2"] or frame.columns == ["time", "time_2", "time_us_2"]
        assert frame["time"].dt.timestamp("us").to_list() == [START_US]
        assert (frame["time_2"][0], frame["time_us_2"][0]) == (1.0, 2.0)
        assert log["r"].to_pandas().index[0].value == START_US * 1000


def test_an_optional_array_is_one_entry_per_sample(tmp_path: Path) -> None:
    schema = an_object(v=union(NULL, fixed(3, F4)), w=union(NULL, array(F4)))
    samples = b"\1" + floats(1, 2, 3) + b"\0", b"\0" + b"\1\0", b"\1" + floats(4, 5, 6) + b"\1\1" + floats(7)
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        record = log["r"]
        assert record["v"] == [[1, 2, 3], None, [4, 5, 6]]
        assert record["w"] == [None, [], [7]]
        assert record.to_pandas()["v"].tolist() == record["v"]
        assert record.to_polars()["w"].to_list() == record["w"]


def test_arrays_of_texts_and_maps_are_one_entry_per_sample(tmp_path: Path) -> None:
    schema = an_object(pair=fixed(2, TEXT), maps=fixed(2, b"\x14" + VARUINT), list=array(TEXT))
    samples = [text("a") + text("b") + b"\0" + b"\1\1k\5" + b"\1" + text("c")] * 3
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        record = log["r"]
        assert record["pair"] == [["a", "b"]] * 3
        assert record["pair.1"] == ["b"] * 3
        assert record["maps"] == [[{}, {"k": 5}]] * 3
        assert record["list"] == [["c"]] * 3
        assert {name: len(values) for name, values in record.arrays().items()} == dict.fromkeys(
            ["time_us", "pair", "maps", "list"], 3
        )
        assert record.to_pandas()["pair"].tolist() == record.to_polars()["pair"].to_list() == [["a", "b"]] * 3


def test_an_array_within_a_union_is_one_value(tmp_path: Path) -> None:
    schema = an_object(v=union(F4, TEXT, array(I4)))
    samples = b"\0" + floats(1), b"\1" + text("a"), b"\2\2" + struct.pack("<ii", 1, 2)
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        assert log["r"]["v"] == [1.0, "a", [1, 2]]
        assert log["r"].to_polars()["v"].to_list() == [1.0, "a", [1, 2]]


def test_arrays_of_optional_integers_keep_digits_and_samples(tmp_path: Path) -> None:
    schema = an_object(v=fixed(2, union(NULL, I8)))
    small, large = b"\1" + i8(5) + b"\0", b"\0" + b"\1" + i8(EXACT + 1)
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, small, large)) as log:
        assert log["r"]["v"] == [[5, None], [None, EXACT + 1]]
    with kilohertz.open_log(made(tmp_path / "b.tlog", schema, small, small)) as log:
        np.testing.assert_array_equal(log["r"]["v"], [[5.0, np.nan]] * 2)


def test_arrays_within_arrays_are_distinguished(tmp_path: Path) -> None:
    schema = an_object(a=array(array(F4)), m=fixed(2, fixed(2, F4)))
    matrix = floats(1, 2, 3, 4)
    samples = [
        b"\2\1" + floats(1) + b"\2" + floats(2, 3) + matrix,
        b"\2\2" + floats(1, 2) + b"\1" + floats(3) + matrix,
    ]
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        assert log["r"]["a"] == [[[1], [2, 3]], [[1, 2], [3]]]
        assert log["r"]["a.1"] == [[2, 3], [3]]
        # Where no length changes, nothing is lost in a row.
        assert log["r"]["m"].tolist() == [[1, 2, 3, 4]] * 2
        assert log["r"]["m.1"].tolist() == [[3, 4]] * 2


def test_a_text_that_is_not_utf8_is_bytes(tmp_path: Path) -> None:
    with kilohertz.open_log(made(tmp_path / "a.tlog", an_object(t=TEXT), b"\2hi", b"\2h\xff")) as log:
        assert log["r"]["t"] == ["hi", b"h\xff"]
        assert log["r"].to_polars()["t"].to_list() == ["hi", b"h\xff"]


def test_a_sample_that_does_not_fit_its_schema_costs_itself(tmp_path: Path) -> None:
    samples = floats(1, 2), floats(9), floats(3, 4)
    with kilohertz.open_log(made(tmp_path / "a.tlog", an_object(b=F4, c=F4), *samples)) as log:
        for field, values in {"b": [1, 3], "c": [2, 4]}.items():
            with pytest.warns(RuntimeWarning, match='a.tlog: byte .*payload of record "r"'):
                assert log["r"][field].tolist() == values
        with pytest.warns(RuntimeWarning):
            assert log["r"].to_pandas()["c"].tolist() == [2, 4]
        with pytest.warns(RuntimeWarning):
            assert log["r"].time_us.tolist() == [START_US, START_US + 2000]


def test_damaged_samples_are_counted(tmp_path: Path) -> None:
    samples = [floats(9), floats(1, 2)] * 3
    with kilohertz.open_log(made(tmp_path / "a.tlog", an_object(b=F4, c=F4), *samples)) as log:
        with pytest.warns(RuntimeWarning, match="3 damaged places"):
            assert log["r"]["b"].tolist() == [1, 1, 1]


def test_names_that_collide_hide_no_field(tmp_path: Path) -> None:
    cases = {
        ("a", fixed(2, F4), "a.0", F4): {"a": [[1, 2]], "a.0": [3]},
        ("a", an_object(b=F4), "a.b", F4): {"a.b": [1], "a.b_2": [2]},
        ("x", F4, "x", F4): {"x": [1], "x_2": [2]},
        ("x", F4, "x", F4, "x_2", F4): {"x": [1], "x_3": [2], "x_2": [3]},
        ("*", F4, "b", F4): {"*": [1], "b": [2]},
    }
    for pairs, expected in cases.items():
        schema = an_object_of(*zip(pairs[::2], pairs[1::2], strict=True))
        with kilohertz.open_log(made(tmp_path / "a.tlog", schema, floats(1, 2, 3))) as log:
            record = log["r"]
            assert record.fields == list(expected)
            assert {name: record[name].tolist() for name in record.fields} == expected
            for frame in (record.to_pandas(), record.to_polars()):
                values = {name: list(frame[name]) for name in frame.columns if name != "time"}
                assert all(values[name] == each for name, each in expected.items() if name in values)
                assert sorted(values.values()) == [[1], [2], [3]][: len(values)]


def test_a_path_that_means_two_fields_is_an_error(tmp_path: Path) -> None:
    schema = an_object_of(("a", an_object(b=fixed(2, F4))), ("a.b", fixed(2, F4)))
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, floats(1, 2, 3, 4))) as log:
        assert log["r"]["a.b_2"].tolist() == [[3, 4]]
        with pytest.raises(KeyError, match="several fields"):
            log["r"]["a.b.0"]


def test_fields_called_like_the_times_and_their_stand_ins_are_all_there(tmp_path: Path) -> None:
    names = ["time_us", "time_us_2", "time", "time_2"]
    path = made(tmp_path / "a.tlog", an_object(**dict.fromkeys(names, F4)), floats(1, 2, 3, 4))
    with kilohertz.open_log(path) as log:
        arrays = log["r"].arrays()
        assert {name: values.tolist() for name, values in arrays.items()} == {
            "time_us": [START_US], "time_us_3": [1], "time_us_2": [2], "time": [3], "time_2": [4],
        }  # fmt: skip
        assert log["r"].to_pandas().iloc[0].to_dict() == {"time_us_3": 1, "time_us_2": 2, "time": 3, "time_2": 4}
        # Alone, too, none has the name of another.
        assert list(log["r"].to_pandas("time_us").columns) == ["time_us_3"]
        assert log["r"].to_polars("time").columns == ["time", "time_3"]
        [row] = log["r"].to_polars().drop("time").to_dicts()
        assert row == {"time_us_3": 1, "time_us_2": 2, "time_3": 3, "time_2": 4}


def test_samples_without_a_time_have_none(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tlog", an_object(x=F4), *map(floats, [1, 2, 3]), timeless=(0, 2))
    with kilohertz.open_log(path) as log:
        record = log["r"]
        np.testing.assert_array_equal(record.time, [math.nan, 0.0, math.nan])
        np.testing.assert_array_equal(np.isnat(record.time_us.view("datetime64[us]")), [True, False, True])
        assert record.to_pandas().index.isna().tolist() == [True, False, True]
        assert [time is None for time, _ in record.to_polars().rows()] == [True, False, True]
        assert record["x"].tolist() == [1, 2, 3]
        # They are in no slice of time.
        assert record[0:]["x"].tolist() == record[:5]["x"].tolist() == [2]


@pytest.mark.parametrize(
    ("members", "payload", "value"),
    [
        ((NULL, I4, I8), b"\2" + i8(EXACT + 1), EXACT + 1),
        ((NULL, BOOL, U8), b"\2" + bytes([255] * 8), 2**64 - 1),
        ((NULL, F8, I8), b"\2" + i8(EXACT + 1), EXACT + 1),
        ((NULL, b"\x11" + U8 + b"\0"), b"\1" + i8(EXACT + 1), EXACT + 1),
        ((NULL, F4, STAMP), b"\2" + i8(EXACT + 1), EXACT + 1),
    ],
)
def test_optional_numbers_of_every_kind_keep_all_their_digits(
    tmp_path: Path, members: tuple[bytes, ...], payload: bytes, value: int
) -> None:
    path = made(tmp_path / "a.tlog", an_object(v=union(*members)), b"\0", payload)
    with kilohertz.open_log(path) as log:
        assert log["r"]["v"] == [None, value]
        assert log["r"].to_pandas()["v"].tolist() == log["r"].to_polars()["v"].to_list() == [None, value]


def test_polars_rounds_no_large_integer_beside_a_fraction(tmp_path: Path) -> None:
    schema = an_object(v=union(F8, I8), m=b"\x14" + union(F8, I8))
    fraction, large = b"\0" + struct.pack("<d", 0.5), b"\1" + i8(EXACT + 1)
    samples = [value + b"\1\1k" + value for value in (fraction, large)]
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        frame = log["r"].to_polars()
        assert frame["v"].to_list() == log["r"].to_pandas()["v"].tolist() == [0.5, EXACT + 1]
        assert frame["m"].to_list() == [{"k": 0.5}, {"k": EXACT + 1}]


def test_a_timestamp_is_microseconds_in_a_union_too(tmp_path: Path) -> None:
    schema = an_object(a=STAMP, b=union(NULL, STAMP), c=union(NULL, F4, STAMP))
    sample = i8(START_US) + b"\1" + i8(START_US) + b"\2" + i8(START_US)
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, sample)) as log:
        assert [log["r"][field].tolist() for field in "abc"] == [[START_US]] * 3


def test_an_enum_is_read_as_its_integer(tmp_path: Path) -> None:
    large = (2**63 + 5).to_bytes(8, "little")
    path = made(tmp_path / "a.tlog", an_object(e=b"\x11" + U8 + b"\1" + large + text("hi")), large)
    with kilohertz.open_log(path) as log:
        assert log["r"]["e"].tolist() == [2**63 + 5]
        assert log["r"].names("e") == {2**63 + 5: "hi"}


def test_an_array_that_is_always_empty_is_a_column(tmp_path: Path) -> None:
    path = made(tmp_path / "a.tlog", an_object(a=array(F4), b=F4), *[b"\0" + floats(1)] * 3)
    with kilohertz.open_log(path) as log:
        assert log["r"]["a"].shape == (3, 0)
        assert log["r"].to_pandas()["a"].map(list).tolist() == log["r"].to_polars()["a"].to_list() == [[]] * 3


def test_a_record_without_samples_has_all_its_columns(tmp_path: Path) -> None:
    schema = an_object(a=F4, f=fixed(2, F4), v=array(F4), s=TEXT)
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema)) as log:
        assert log["r"]["f"].shape == (0, 2)
        assert list(log["r"].to_pandas().columns) == ["a", "f.0", "f.1", "v", "s"]
        assert log["r"].to_polars().columns == ["time", "a", "f.0", "f.1", "v", "s"]


def test_an_item_behind_the_end_of_an_array_is_no_field_or_no_value(tmp_path: Path) -> None:
    schema = an_object(a=fixed(3, F4), v=array(F4), t=array(TEXT))
    samples = [
        floats(1, 2, 3) + b"\1" + floats(9) + b"\0",
        floats(1, 2, 3) + b"\2" + floats(9, 8) + b"\2" + text("x") + text("y"),
    ]
    with kilohertz.open_log(made(tmp_path / "a.tlog", schema, *samples)) as log:
        with pytest.raises(KeyError, match="no field `a.3`"):
            log["r"]["a.3"]
        np.testing.assert_array_equal(log["r"]["v.1"], [math.nan, 8])
        assert log["r"]["t.1"] == [None, "y"]
