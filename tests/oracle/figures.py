"""The figures of `khz run`, `khz jitter` and `khz rtt send`, computed again from raw data by their definitions in
docs/metrics.md and docs/ethernet.md."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

Row = dict[str, Any]
Figures = dict[str, Any]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
LOST_NS = 50_000
LEARNING = 100
MINUTE_NS = 60_000_000_000
SHARES = ["previous_tick", "preempted", "blocked", "page_fault", "unaccounted"]


def highest_equivalent(value: int) -> int:
    """The end of the bin of a value, in an HdrHistogram of three digits."""
    value = min(max(value, 0), MINUTE_NS)
    width = max(value.bit_length() - 11, 0)
    return ((value >> width) + 1 << width) - 1


def quantile(ordered: list[int], q: float) -> int:
    """Nearest rank, as an HdrHistogram shows it that knows its exact ends."""
    rank = max(math.ceil(q * len(ordered)), 1)
    return min(max(highest_equivalent(ordered[rank - 1]), ordered[0]), ordered[-1])


def root(square: Fraction) -> float:
    """The square root of an exact number."""
    return math.sqrt(square)


def distribution(values: list[int], at: list[int]) -> Figures:
    """Of values and what each is known by."""
    if not values:
        return dict.fromkeys(["count", "min", "mean", "sigma", *QUANTILES, "max", "max_at"], 0)
    count, total = len(values), sum(values)
    square = Fraction(sum(value * value for value in values), count) - Fraction(total, count) ** 2
    ordered = sorted(values)
    largest = values.index(ordered[-1])
    return {
        "count": count,
        "min": ordered[0],
        "mean": total / count,
        "sigma": root(square),
        **{name: quantile(ordered, q) for name, q in QUANTILES.items()},
        "max": ordered[-1],
        "max_at": at[largest],
    }


def shares(late_ns: int, previous_ns: int, tick: Row) -> dict[str, int]:
    """What a tick lost to each cause."""
    late_ns = max(late_ns, 0)
    rest, away = late_ns - previous_ns, max(tick["away_ns"], 0)
    before, within = min(rest, tick["queued_before_ns"]), min(away, tick["queued_ns"])
    lost = dict.fromkeys(SHARES, 0)
    lost["previous_tick"], lost["preempted"] = previous_ns, before + within
    itself = "page_fault" if tick["major_faults"] else "blocked"
    lost[itself if tick["blocked_before"] else "unaccounted"] += rest - before
    lost[itself if tick["blocked"] else "unaccounted"] += away - within
    return lost


def was_stopped(tick: Row) -> bool:
    """Whether most of what the thread gave up by itself passed while it waited for the tick."""
    late_ns = max(tick["started_ns"] - tick["waited_for_ns"], 0)
    waited = max(late_ns - previous_ns(tick), 0)
    by_itself = shares(late_ns, previous_ns(tick), tick)["blocked"]
    return bool(tick["blocked_before"]) and 2 * (waited - min(waited, tick["queued_before_ns"])) > by_itself


def cause(lost: dict[str, int]) -> str | None:
    largest = max(["previous_tick", "preempted", "blocked", "page_fault", "unaccounted"], key=lambda name: lost[name])
    return largest if lost[largest] >= LOST_NS else None


def lost_time(all_lost: list[dict[str, int]]) -> Figures:
    named = [(cause(lost), lost) for lost in all_lost]
    hit = [(name, lost) for name, lost in named if name]
    return {
        "ticks": len(hit),
        "causes": {share: sum(name == share for name, _ in hit) for share in SHARES},
        "time_ns": {share: sum(lost[share] for _, lost in hit) for share in SHARES},
    }


class Usual:
    """A running median: a step of 1/64 of itself, at least 1 ns, towards each value. Known once `learning` were seen."""

    def __init__(self, learning: int = LEARNING) -> None:
        self.value: int | None = None
        self.seen, self.learning = 0, learning

    def known(self) -> int | None:
        return self.value if self.seen >= self.learning else None

    def ask(self, value: int) -> int | None:
        """What was usual before this value, once enough were seen."""
        usual = self.known()
        self.seen += 1
        if self.value is None:
            self.value = value
        else:
            step = max(self.value // 64, 1)
            self.value += int(np.sign(value - self.value)) * step
        return usual


class Blame:
    """Which part of a tick is most over its own usual time: `bus`, `controller` or `compute`."""

    NAMES = {"bus": "bus", "imu": "bus", "control": "controller"}

    def __init__(self) -> None:
        self.usual: dict[str, Usual] = {}
        self.before: str | None = None

    def part(self, times: dict[str, int], tick: Row, judged: bool) -> str | None:
        """Of equal ones the later part. One that began late because of the tick before is blamed on what that is blamed on."""
        over, part = 0, None
        for name, ns in times.items():
            usual = self.usual.setdefault(name, Usual()).value or 0
            if ns - usual > 0 and ns - usual >= over:
                over, part = ns - usual, name
        for name, ns in times.items():
            self.usual[name].ask(ns)
        if judged and part == "previous tick":
            part = "record" if 2 * tick["record_ns"] > times[part] else self.before or part
        if judged:
            self.before = part
        return part


def late_cause(excess: int, lost: dict[str, int], faults_ns: int, own_cause: str) -> str:
    """What took most of the excess; of equal ones the thread's own."""
    own, outside = max(excess - sum(lost.values()), 0), dict(lost)
    from_memory = min(faults_ns, own)
    outside["page_fault"] += from_memory
    own -= from_memory
    largest = max(SHARES, key=lambda name: outside[name])
    return own_cause if own >= outside[largest] else largest


class Costs:
    """What late ticks cost, each blamed on what held it up in the end."""

    def __init__(self) -> None:
        self.by_cause: dict[str, Figures] = {}

    def at(self, cause: str, tick: Row, response: int) -> Figures:
        nothing = dict.fromkeys(["ticks", "lost_ns", "stopped_ns", "lost_periods", "overruns", "late_wakes"], 0)
        cost = self.by_cause.setdefault(cause, {**nothing, "worst_ns": 0, "worst_tick": None})
        if response > cost["worst_ns"]:
            cost["worst_ns"], cost["worst_tick"] = response, tick["number"]
        return cost

    def late(self, cause: str, tick: Row, response: int, beyond: int) -> None:
        cost = self.at(cause, tick, response)
        cost["ticks"] += 1
        cost["lost_ns"] += beyond
        cost["stopped_ns"] += beyond if cause == "blocked" and was_stopped(tick) else 0

    def costly(self, tick: Row, response: int, root: str, start: str, period_ns: int) -> None:
        if ended_ns(tick) > tick["planned_ns"] + period_ns:
            self.at(root, tick, response)["overruns"] += 1
        late_wake = tick["started_ns"] - tick["waited_for_ns"] >= period_ns
        if tick["skipped"] or late_wake:
            cost = self.at(start, tick, response)
            cost["lost_periods"] += tick["skipped"]
            cost["late_wakes"] += late_wake


def late(
    ticks: list[Row], all_lost: list[dict[str, int]], threshold_ns: int, period_ns: int
) -> tuple[Figures, dict[int, Row], dict[str, Figures]]:
    """How many ticks were late, for which causes; each of them by its number; and what each cause cost."""
    usual, blame, worst, costs = Usual(), Blame(), {}, Costs()
    causes = dict.fromkeys(["judged", "late", *SHARES, "controller", "bus", "compute"], 0)
    held_up: str | None = None
    in_a_row = 0
    for tick, lost in zip(ticks, all_lost):
        response = ended_ns(tick) - tick["waited_for_ns"]
        excess = response - (usual.value or 0)
        before = usual.ask(response)
        part = blame.part(part_times(tick), tick, before is not None)
        causes["judged"] += before is not None
        cause = late_cause(excess, lost, tick["faults_ns"], Blame.NAMES.get(part or "", "compute"))
        early = shares(tick["started_ns"] - tick["waited_for_ns"], previous_ns(tick), {**tick, "away_ns": 0})
        start, held = max(SHARES, key=lambda name: early[name]), previous_ns(tick)
        # Until it was ready, a loop that skips was held up by the tick before.
        if tick["skipped"] and tick["ready_ns"] - tick["due_ns"] > tick["started_ns"] - tick["waited_for_ns"]:
            start, held = "previous_tick", tick["ready_ns"] - tick["due_ns"]
        root, start = (
            name if name != "previous_tick" else "compute" if 2 * tick["record_ns"] > by else held_up or name
            for name, by in ((cause, previous_ns(tick)), (start, held))
        )
        held_up = root
        costs.costly(tick, response, root, start, period_ns)
        if before is None or excess <= threshold_ns:
            continue
        # A tick between that is not in the log may have been on time.
        in_a_row = in_a_row + 1 if tick["number"] - 1 in worst else 1
        tick["late_in_a_row"] = in_a_row
        costs.late(cause, tick, response, excess)
        causes["late"] += 1
        causes[cause] += 1
        worst[tick["number"]] = {"cause": cause, "part": part or "none", "response_ns": response}
    return causes, worst, costs.by_cause


def mark_off_cpu(ticks: list[Row]) -> None:
    """Notes in which ticks the time on the CPU within the bus cycle was less than all replies usually take."""
    usual = Usual(learning=1)
    for tick in ticks:
        away, before = tick["away_in_cycle_ns"], usual.known()
        tick["off_cpu"] = away >= LOST_NS and before is not None and tick["cycle_ns"] - away < before
        if tick["missed"] == 0:
            usual.ask(tick["cycle_ns"] - tick["imu_ns"])


def start_delay(ticks: list[tuple[int, int, int, int]], period_ns: int) -> Figures:
    """Of ticks as started, due, periods without a tick, and by what the tick is known."""
    values, at = [], []
    for started, due, skipped, known in ticks:
        values += [started - due - i * period_ns for i in range(skipped + 1)]
        at += [known] * (skipped + 1)
    return distribution(values, at)


def of_decisions(decisions: list[Row]) -> Figures:
    return {
        "decisions": len(decisions),
        "late_decisions": sum(decision["late"] > 0 for decision in decisions),
        "missed_decisions": sum(decision["missed"] for decision in decisions),
        "clipped_decisions": sum(decision["clipped"] > 0 for decision in decisions),
        "cut_decisions": sum(any(decision["cut"].values()) for decision in decisions),
    }


def counts(ticks: list[Row], period_ns: int, decisions: list[Row]) -> Figures:
    return {
        **of_decisions(decisions),
        "ticks": len(ticks),
        "skipped": sum(tick["skipped"] for tick in ticks),
        "late_wakes": sum(tick["started_ns"] - tick["waited_for_ns"] >= period_ns for tick in ticks),
        "overruns": sum(ended_ns(tick) > tick["planned_ns"] + period_ns for tick in ticks),
        "page_faults": sum(tick["minor_faults"] + tick["major_faults"] for tick in ticks),
        "ticks_without_frame": sum(tick["without_frame"] for tick in ticks),
        "missed_replies": sum(tick["missed"] for tick in ticks),
        "missed_while_off_cpu": sum(tick["missed"] for tick in ticks if tick["off_cpu"]),
        "late_replies": sum(tick["late"] for tick in ticks),
        "unexpected_frames": sum(tick["unexpected"] for tick in ticks),
        "imu_missed": sum(tick["imu_missed"] for tick in ticks),
        "late_in_a_row": max((tick.get("late_in_a_row", 0) for tick in ticks), default=0),
        "skipped_in_a_row": max((tick["skipped"] for tick in ticks if tick["controlled"]), default=0),
    }


def part_of_run(
    ticks: list[Row], durations: list[int], period_ns: int, falls_behind: bool, decisions: list[Row]
) -> Figures:
    """The controlled ticks, or all others."""
    lost, duration = sum(tick["skipped"] for tick in ticks), sum(durations)
    if falls_behind:
        behind = (duration + period_ns // 2) // period_ns - len(ticks)
        lost = max(lost, behind)
    more = {"lost_periods": lost, "periods": len(ticks) + lost, "duration_ns": duration}
    return {**counts(ticks, period_ns, decisions), **more}


def ended_ns(tick: Row) -> int:
    return tick["started_ns"] + tick["cycle_ns"] + tick["decide_ns"]


def previous_ns(tick: Row) -> int:
    latency = max(tick["started_ns"] - tick["waited_for_ns"], 0)
    return min(max(tick["ready_ns"] - tick["waited_for_ns"], 0), latency)


def part_times(tick: Row) -> dict[str, int]:
    """The parts that make up a tick's response, in their order. Without the controller where it did not run."""
    times = {
        "wake": tick["started_ns"] - tick["waited_for_ns"] - previous_ns(tick),
        "previous tick": previous_ns(tick),
        "encode": tick["encode_ns"],
        "send": tick["send_ns"],
        "bus": tick["collect_ns"] - tick["imu_ns"],
        "imu": tick["imu_ns"],
        "control": tick["control_ns"],
        "supervise": tick["decide_ns"] - tick["control_ns"],
    }
    if not tick["controller_ran"]:
        del times["control"]
    return times


def parts(ticks: list[Row]) -> dict[str, Figures]:
    """Of the parts that ran at all: a run stopped in its first controlled tick may have none of a controller."""
    names = ["wake", "previous tick", "encode", "send", "bus", "imu", "control", "supervise", "record"]
    rows = [(tick["number"], {**part_times(tick), "record": tick["record_ns"]}) for tick in ticks]
    chosen = {name: [(times[name], number) for number, times in rows if name in times] for name in names}
    return {name: distribution([ns for ns, _ in of], [number for _, number in of]) for name, of in chosen.items() if of}


def run(
    log: dict[str, list[Row]], rate_hz: float, threshold_ns: int, steal_ns: int, sensor_paced: bool
) -> tuple[Figures, dict[int, Row]]:
    """The figures of a run, and its late ticks. The counted steal is not in the log, and so is given."""
    ticks, period_ns = log["tick"], round(1e9 / rate_hz)
    starts = [tick["started_ns"] for tick in ticks]
    # Start to start; the first tick has none before it.
    gaps = [0] + [after - before for before, after in zip(starts, starts[1:])]
    active = [False, False] + [tick["phase"] == "active" for tick in ticks]
    controlled = [active[i] and active[i + 1] for i in range(len(ticks))]
    inner = [tick for tick, chosen in zip(ticks, controlled) if chosen]
    outer = [tick for tick, chosen in zip(ticks, controlled) if not chosen]
    inner_gaps = [gap for gap, chosen in zip(gaps, controlled) if chosen]
    outer_gaps = [gap for gap, chosen in zip(gaps, controlled) if not chosen]
    all_lost = [shares(tick["started_ns"] - tick["waited_for_ns"], previous_ns(tick), tick) for tick in inner]

    def of(value: Any, chosen: list[Row] = inner) -> Figures:
        return distribution([value(tick) for tick in chosen], [tick["started_ns"] for tick in chosen])

    def latency(tick: Row) -> int:
        return int(tick["started_ns"] - tick["waited_for_ns"])

    lost = lost_time(all_lost)
    most = min(lost["time_ns"]["unaccounted"], steal_ns)
    # The sensor's clock decides how many periods there are.
    mark_off_cpu(ticks)
    causes, worst, costs = late(inner, all_lost, threshold_ns, period_ns)
    decisions = log.get("decision", [])
    inside = part_of_run(inner, inner_gaps, period_ns, not sensor_paced, decisions)
    rate = (
        len(inner) * 1e9 / inside["duration_ns"] if inside["duration_ns"]
        else (len(ticks) - 1) * 1e9 / (starts[-1] - starts[0])
    )  # fmt: skip
    started = [(tick["started_ns"], tick["due_ns"], tick["skipped"], tick["started_ns"]) for tick in inner]
    took = [(decision["took_ns"], decision["in_tick"]) for decision in decisions if decision["took_ns"] > 0]
    run_figures = {
        **counts(ticks, period_ns, decisions),
        "rate_hz": rate,
        "controlled": inside,
        "outside": part_of_run(outer, outer_gaps, period_ns, False, []),
        "lost_time": lost,
        "steal_at_most_ns": most,
        "unexplained_ns": lost["time_ns"]["unaccounted"] - most,
        "wake_latency_ns": of(latency),
        "wake_latency_outside_ns": of(latency, outer),
        "start_delay_ns": start_delay(started, period_ns),
        "period_ns": distribution(inner_gaps, [tick["started_ns"] for tick in inner]),
        "cycle_ns": of(lambda tick: tick["cycle_ns"]),
        "loop_compute_ns": of(lambda tick: tick["loop_compute_ns"]),
        "cpu_ns": of(lambda tick: tick["cpu_ns"]),
        # The first active tick is in it, too.
        "control_ns": of(lambda tick: tick["control_ns"], [tick for tick in ticks if tick["controller_ran"]]),
        # One that was made within the tick took none of its own.
        "decision_ns": distribution([ns for ns, _ in took], [tick for _, tick in took]),
        "parts": parts(inner),
        "late": {**causes, "by_cause": costs},
        "servos": servos(log),
    }
    return run_figures, worst


def servos(log: dict[str, list[Row]]) -> dict[str, Figures]:
    return {name: servo([sample[name] for sample in log["servo"]], log["tick"]) for name in log["servo"][0]}


def servo(samples: list[Row], ticks: list[Row]) -> Figures:
    """In a tick without a missed reply, one that is not fresh came, and could not be distinguished from an older one."""
    both = list(zip(samples, ticks))
    answered = [(sample["round_trip_ns"], tick["started_ns"]) for sample, tick in both if sample["fresh"]]
    missed = [not sample["fresh"] and tick["missed"] > 0 for sample, tick in both]
    in_a_row = longest = 0
    for is_missed in missed:
        in_a_row = in_a_row + 1 if is_missed else 0
        longest = max(longest, in_a_row)
    return {
        "replied": len(answered),
        "missed": sum(missed),
        "missed_in_a_row": longest,
        "round_trip_ns": distribution([ns for ns, _ in answered], [start for _, start in answered]),
    }


def jitter(rows: list[Row], period_ns: int, threshold_ns: int) -> Figures:
    """The figures of `khz jitter` from the rows of its CSV, in a run without pauses."""
    first = rows[0]["due_ns"]
    latency = [row["woke_ns"] - row["planned_ns"] for row in rows]
    started = [(row["woke_ns"], row["due_ns"], row["missed"], row["woke_ns"] - first) for row in rows]
    all_lost = [shares(late_ns, row["previous_ns"], row) for late_ns, row in zip(latency, rows)]
    # The wake that ended a run did no work.
    ran = [row for row in rows if not row["withheld"]]
    woke = [row["woke_ns"] for row in ran]
    at = [value - first for value in woke]
    work = [row["done_ns"] - row["begun_ns"] for row in ran]
    response = [late_ns + work_ns for late_ns, work_ns in zip(latency, work)]
    return {
        "ticks": len(ran),
        "missed": sum(row["missed"] for row in rows),
        "overruns": sum(row["overrun"] for row in rows),
        "late_wakes": sum(ns >= period_ns for ns in latency),
        "wake_latency_ns": distribution(latency, [row["woke_ns"] - first for row in rows]),
        "start_delay_ns": start_delay(started, period_ns),
        "period_ns": distribution([b - a for a, b in zip(woke, woke[1:])], at[1:]),
        "execution_ns": distribution(work, at),
        "response_ns": distribution(response, at),
        "lost_time": lost_time(all_lost),
        "late": sum(ns > threshold_ns for ns in response),
    }


def at_rank(values: list[int], questions: int, q: float) -> float | None:
    """The time within which the fraction q of all questions was answered."""
    rank = max(math.ceil(q * questions), 1)
    return None if rank > len(values) else sorted(values)[rank - 1]


def rtt(log: dict[str, list[Row]], planned: int, devices: int, period_ns: int) -> Figures:
    """The figures of `khz rtt send` from its log: exact values, to be compared within a bin."""
    trips, ticks = log["round_trip"], {tick["sequence"]: tick for tick in log.get("tick", [])}
    over_planned, late_over_planned, answered_late = [], [], 0
    for trip in trips:
        tick = ticks[trip["sequence"]]
        end_ns = trip["asked_ns"] + trip["round_trip_ns"]
        answered_late += end_ns > tick["ends_ns"]
        over_planned += [end_ns - tick["planned_ns"] + i * period_ns for i in range(tick["missed"] + 1)]
    for tick in ticks.values():
        late_ns = tick["begun_ns"] - tick["planned_ns"]
        late_over_planned += [late_ns + i * period_ns for i in range(tick["missed"] + 1)]
    cycles = [tick["cycle_ns"] for tick in ticks.values() if tick["cycle_ns"] >= 0]
    per_tick: dict[int, int] = {}
    for trip in trips:
        tick = ticks[trip["sequence"]]
        if trip["asked_ns"] + trip["round_trip_ns"] <= tick["ends_ns"]:
            per_tick[trip["sequence"]] = per_tick.get(trip["sequence"], 0) + 1
    return {
        "ticks": len(ticks),
        "planned_ticks": planned,
        "missed_ticks": planned - len(ticks),
        "incomplete_ticks": sum(per_tick.get(sequence, 0) < devices for sequence in ticks),
        "answered": len(trips),
        "late": answered_late,
        "round_trip_ns": [trip["round_trip_ns"] for trip in trips],
        "cycle_ns": cycles,
        "late_tick_ns": [tick["late_ns"] for tick in ticks.values()],
        "round_trip_planned_ns": over_planned,
        "late_tick_planned_ns": late_over_planned,
        "questions": planned * devices,
    }
