"""Logs read from Python: the golden logs, and what is wrong with others."""

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
            "en": (np.int64, [200]),
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


def test_what_is_not_there_is_told_with_what_is(vector) -> None:
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


def made(path: Path, schema: bytes, *payloads: bytes) -> Path:
    """A log with one record, `r`, a sample a millisecond. Blocks by the format's description, without checksums."""

    def block(kind: int, body: bytes) -> bytes:
        assert len(body) < 128
        return bytes([kind, len(body)]) + body

    data = b"TLOG0003\0" + block(1, b"\1\0\1r" + schema)
    for n, payload in enumerate(payloads):
        data += block(2, b"\1\2" + (START_US + 1000 * n).to_bytes(8, "little") + payload)
    path.write_bytes(data)
    return path


NULL, F8, TEXT, VARUINT = b"\1", b"\x08", b"\x0a", b"\6"


def an_object(**fields: bytes) -> bytes:
    each = [b"\0" + bytes([len(name)]) + name.encode() + b"\0" + ty + b"\0" for name, ty in fields.items()]
    return b"\x10\0" + b"".join(each) + bytes(5)


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
