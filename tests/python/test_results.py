"""Measurements as data frames."""

import pathlib
import subprocess
from collections.abc import Callable

import numpy as np
import pytest

import kilohertz

RunKhz = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def saved(run_khz: RunKhz, tmp_path: pathlib.Path) -> pathlib.Path:
    """What a short `khz jitter` saved."""
    done = run_khz("jitter", "--ticks", "200", "--wake", "sleep", "--policy", "other", "--save", "jitter.json")
    assert done.returncode in (0, 1), done.stderr
    return tmp_path / "jitter.json"


def test_jitter_as_frames(saved: pathlib.Path) -> None:
    result = kilohertz.open_result(saved)
    frame = result.distributions.to_pandas()
    assert result.runs == [frame["run"][0]]
    assert list(frame["quantity"]) == ["wake_latency", "start_delay", "period", "execution", "response"]
    assert frame["count"][0] == 200
    assert (frame["p50"] <= frame["p99"]).all()
    # Every tick is in the histogram, and its largest bucket holds the largest value.
    buckets = result.histograms.to_polars()
    wake = buckets.filter(buckets["quantity"] == "wake_latency")
    assert wake["count"].sum() == 200
    assert wake["value_ns"].max() == pytest.approx(frame["max"][0], rel=0.02)
    assert list(result.late) == list(result.late.to_pandas().columns)
    assert result.counts["ticks"].tolist() == [200]


def test_the_figures_of_a_run_as_a_frame() -> None:
    summary = kilohertz.Robot.emulated(servos=2, wire="instant").run(
        {"first": kilohertz.Module.hold(), "second": lambda state, command: None}, duration=0.3, virtual_time=True
    )
    table = summary.distributions
    named = dict(zip(table["quantity"], table["p50"], strict=True))
    assert named["cycle_ns"] == summary.cycle_ns["p50"]
    assert named["modules.second.time"] == summary.modules[1]["time"]["p50"]
    assert "servos.servo_2.round_trip_ns" in named
    assert table.to_polars().shape == (len(named), 12)


def test_columns_with_gaps_and_without_rows() -> None:
    table = kilohertz.results.table([{"a": 1, "b": "x"}, {"b": None}], ("a", "b"))
    np.testing.assert_array_equal(table["a"], [1.0, np.nan])
    assert table["b"].tolist() == ["x", None]
    empty = kilohertz.results.table([], ("a",))
    assert empty.to_pandas().shape == (0, 1)
    assert empty.to_polars().shape == (0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut off"),
        ('{"format":"khz-jitter","version":2,"ru', "cut off"),
        ("[1, 2]", "no result"),
        ('{"format":"other"}', "but a other"),
        ('{"format":"khz-jitter","version":0,"runs":[]}', "another version"),
        ('{"format":"khz-jitter","version":2}', "'runs'"),
        ('{"format":"khz-jitter","version":2,"runs":[{"name":"a"}]}', "'wake_latency_ns'"),
        ('{"format":"khz-jitter","version":2,"runs":[3]}', "unfit"),
        ("\xff\xfe", "cut off"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: pathlib.Path, text: str, message: str) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(kilohertz.ResultError, match=message) as caught:
        kilohertz.open_result(path)
    assert "result.json" in str(caught.value)
    assert caught.value.__class__.__mro__[1] is kilohertz.KilohertzError
    with pytest.raises(FileNotFoundError):
        kilohertz.open_result(tmp_path / "none.json")
