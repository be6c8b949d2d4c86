"""Logs read from Python: the golden logs, and what is wrong with others."""

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
