"""What a run reports of itself, compared with its log."""

import math
from typing import Any

import figures
from scenario import PERIOD_NS, Figures

# What `khz run --json` has and no log can have: words, or figures of other sources, with the reason.
NOT_FROM_THE_LOG = {
    "format": "a word: what kind of result it is",
    "version": "of the format of the result",
    "robot": "the robot file",
    "verdict": "words; see verdict()",
    "target_rate_hz": "the robot file",
    "changed_commands": "commands are logged as they were sent; tested in Rust",
    "early_frames": "frames that start no tick; the sensor in test_paced.py knows how many it sent",
    "buses": "counters of the links: tested in Rust, and by the sentences",
    "steal_ns": "the kernel's count",
    "steal_loop_cpu_ns": "the kernel's count",
    "modules": "sections of a controller: not in the log, tested in Rust",
    "pipelined": "of controllers on their own thread: not in the log, tested in Rust",
    "decided": "the counts of decisions once more, and joint by joint: tested in Rust",
    "grade": "what the kernel granted",
    "grants": "what the kernel granted",
    "end": "words",
    "ended_well": "the exit code",
    "required": "empty here: what --require said; tested in Rust",
    "events": "compared with the record `event`",
    "events_left_out": "what the summary leaves out",
    "passport": "the machine",
    "log_dropped": "must be 0 here",
    "log_error": "must be null here",
    "clock": "a word: which clock the loop ran by",
    "live": "requests of people: tested in Rust",
    "targets": "of a robot that follows targets: the run's against its log's, and against what was sent, in Rust",
    "sinks": "where samples went besides the log: tested in Rust",
    "log": "a path",
    "log_files": "paths",
    "report": "a path",
    "python_ns": "of Python controllers: not in the log",
    "overhead_ns": "of Python controllers: not in the log",
    "python_threads": "of Python controllers: not in the log",
    "trunk": "where an emulated robot ended: not in the log",
}


def compare(reported: Figures, log: dict[str, list[Figures]], sensor_paced: bool = False) -> Figures:
    """Fails on the first figure that differs from the log, and on any without a known computation."""
    assert reported["log_dropped"] == 0 and reported["log_error"] is None and (sensor_paced or reported["early_frames"] == 0)
    cpu_steal = reported["steal_loop_cpu_ns"]
    steal_ns = reported["steal_ns"] if cpu_steal is None else cpu_steal
    threshold_ns = reported["late"]["threshold_ns"]
    expected, late_ticks = figures.run(log, reported["target_rate_hz"], threshold_ns, steal_ns, sensor_paced)
    shown = dict(reported)
    shown["parts"] = {part["name"]: part["time_ns"] for part in reported["parts"]}
    shown["servos"] = {servo["name"]: of(servo, "replied missed missed_in_a_row round_trip_ns") for servo in reported["servos"]}
    by_cause = {group["cause"]: {k: v for k, v in group.items() if k != "cause"} for group in reported["late"]["by_cause"]}
    shown["late"] = dict(reported["late"]["causes"], judged=reported["late"]["judged"], by_cause=by_cause)
    unknown = set(reported) - set(expected) - set(NOT_FROM_THE_LOG)
    assert not unknown, f"figures without an oracle: {sorted(unknown)}"
    arrived_in_its_tick(shown["servos"], expected["servos"], log["tick"])
    for key, figure in expected.items():
        same(figure, shown[key], key)
    for servo in reported["servos"]:
        # Nothing is sent while the bus is down.
        assert servo["replied"] <= servo["sent"] <= expected["ticks"]
    assert sum(servo["late"] for servo in reported["servos"]) == expected["late_replies"]
    events(reported, log["event"])
    worst(reported["late"]["worst"], late_ticks)
    verdict(reported, expected)
    return expected


def arrived_in_its_tick(reported: Figures, expected: Figures, ticks: list[Figures]) -> None:
    """When the reply with the longest round trip arrived is not in the log, but in which tick: then it becomes what is expected."""
    cycle_ns = {tick["started_ns"]: tick["cycle_ns"] for tick in ticks}
    for name, servo in expected.items():
        longest, arrived = servo["round_trip_ns"], reported[name]["round_trip_ns"]["max_at"]
        if longest["count"]:
            assert 0 <= arrived - longest["max_at"] <= cycle_ns[longest["max_at"]], name
            longest["max_at"] = arrived


def events(reported: Figures, log: list[Figures]) -> None:
    """The summary lists what the log has, of very many the first and the last."""
    shown, left_out = reported["events"], reported["events_left_out"]
    assert len(shown) + left_out == len(log)
    kept = log[:32] + log[32 + left_out :] if left_out else log
    for event, logged in zip(shown, kept):
        assert event["cause"].startswith(logged["cause"]) and event["servo"] == (logged["servo"] or None)
        same(of(logged, "tick from to trouble"), of(event, "tick from to trouble"), "event")


def worst(reported: list[Figures], late_ticks: dict[int, Figures]) -> None:
    """Of the late ticks the hundred longest are listed, each as the log explains it."""
    assert len(reported) == min(len(late_ticks), 100)
    least = sorted((tick["response_ns"] for tick in late_ticks.values()), reverse=True)[: len(reported)]
    assert sorted((tick["response_ns"] for tick in reported), reverse=True) == least
    for tick in reported:
        same(late_ticks[tick["tick"]], of(tick, "cause part response_ns"), f"late {tick}")


def of(figures: Figures, keys: str) -> Figures:
    return {key: figures[key] for key in keys.split()}


def same(expected: Any, shown: Any, key: str) -> None:
    """Whole numbers are equal, others but for the rounding of a float."""
    if isinstance(expected, dict):
        assert set(expected) == set(shown), f"{key}: {set(expected) ^ set(shown)}"
        for name, value in expected.items():
            same(value, shown[name], f"{key}.{name}")
    elif isinstance(expected, float) or isinstance(shown, float):
        assert math.isclose(expected, shown, rel_tol=1e-9, abs_tol=1e-6), f"{key}: {expected}, shown {shown}"
    else:
        assert expected == shown, f"{key}: {expected}, shown {shown}"


def verdict(reported: Figures, expected: Figures) -> None:
    """A run that lost anything gets no good badge."""
    inside = expected["controlled"]
    lost = sum(inside[key] for key in ("lost_periods", "late_wakes", "overruns", "missed_replies"))
    wrong = sum(expected[key] for key in ("late_replies", "unexpected_frames", "imu_missed", "ticks_without_frame"))
    wrong += reported["early_frames"]
    if lost or wrong or not reported["ended_well"]:
        assert reported["verdict"]["level"] != "good", reported["verdict"]
    if inside["lost_periods"]:
        assert f"lost {inside['lost_periods']:,}" in reported["verdict"]["text"], reported["verdict"]
    assert reported["verdict"]["held"] == (reported["ended_well"] and inside["ticks"] > 0 and inside["lost_periods"] == 0)


def check_log(log: dict[str, list[Figures]]) -> None:
    """What the log has twice must be the same."""
    before = [False, False]
    for tick in log["tick"]:
        assert tick["wake_latency_ns"] == tick["started_ns"] - tick["waited_for_ns"]
        assert tick["overrun"] == (figures.ended_ns(tick) > tick["planned_ns"] + PERIOD_NS), tick
        assert tick["controlled"] == all(before), tick
        before = [before[1], tick["phase"] == "active"]
        late_ns = tick["wake_latency_ns"]
        assert (figures.cause(figures.shares(late_ns, figures.previous_ns(tick), tick)) or "none") == tick["cause"], tick
        assert tick["due_ns"] <= tick["planned_ns"] and tick["waited_for_ns"] <= tick["started_ns"]
