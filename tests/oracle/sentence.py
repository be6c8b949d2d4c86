"""Reads the sentence of a verdict as a person does, and reports where it is not the truth."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

Figures = dict[str, Any]

# How a sentence names a cause. That which it names first counts; of two at the same place, the first here.
CAUSES = {
    "several": r"several reasons",
    "interpreter": r"interpreter|\bGIL\b",
    "garbage": r"garbage",
    "quota": r"CPU quota",
    "rt throttling": r"limits real-time threads|real-time throttling",
    "frozen": r"stopped from outside|cgroup was frozen",
    "pipelined controller": r"controller was not done in|decisions? (was|were) left out",
    "usual controller": r"the controller usually takes|most of it the controller",
    "usual bus": r"waiting for replies usually takes|most of it waiting for replies|bus cycle needs|cycle does not fit",
    "usual compute": r"computing usually takes|most of it computing",
    "preempted": r"other threads had its CPU|preempted",
    "page fault": r"page fault",
    "unaccounted": r"unaccounted for",
    "blocked": r"was blocked",
    "controller": r"the controller took too long",
    "bus": r"replies took too long|repl(y|ies) (was|were|come|came) (too )?late",
    "compute": r"computing took too long",
    "previous tick": r"tick before overran",
    "bus down": r"bus \w+ went down",
    "impossible value": r"which cannot be",
    "heat": r"°C \(",
    "off its CPU": r"off its CPU",
}

# What can be done about a cause.
CURES_OF = {
    "preempted": frozenset({"doctor", "pin"}),
    "unaccounted": frozenset({"doctor"}),
    "frozen": frozenset({"frozen"}),
    "blocked": frozenset({"locks", "interpreter"}),
    "page fault": frozenset({"memory", "doctor"}),
    "controller": frozenset({"faster"}),
    "compute": frozenset({"doctor", "rate"}),
}
# Where a sentence goes on to another cause, and to what else was wrong.
OTHERS = r" (?=Another (?:[\d,]+ )?(?:period|tick)s? |Besides, )"

# What a sentence advises: what stands behind its first semicolon, or behind a colon and a verb.
ADVICE = r"(?:;|: (?=set|raise|lower|see)).*"
CURES = {
    "budget": r"`khz budget[^`]*`",
    "doctor": r"`khz doctor[^`]*`",
    "scan": r"`khz bus scan[^`]*`",
    "locks": r"keep locks, files and sleeps out",
    "interpreter": r"interpreter|Python thread",
    "memory": r"allocate|lock_memory",
    "rate": r"lower the rate|(lower|set) `?loop\.rate_hz",
    "faster": r"make it faster|controller faster|pipelined",
    "quota": r"raise the quota",
    "limits": r"`limits`",
    "pin": r"loop\.cpu|priority",
    "throttling": r"sched_rt_runtime|loop\.wake",
    "frozen": r"stops or freezes",
    "delays": r"delays or reorders frames",
    "cool": r"servos cool|charge the battery",
    "registers": r"see its `(command|query)` keys",
}

UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
NUMBER = r"([\d,]+(?:\.\d+)?)"
COUNTS = {
    "lost": rf"lost {NUMBER} (?:of|periods?)",
    "missed": rf"(?:missed {NUMBER} repl|{NUMBER} repl(?:y|ies) (?:was|were) missed)",
    "came late": rf"{NUMBER} came late",
    "not asked": rf"{NUMBER} quer(?:y|ies) (?:was|were) not sent",
    "not come": rf"{NUMBER} did not come",
    "late replies": rf"{NUMBER} (?:of [\d,]+ )?repl(?:y|ies) (?:was|were|came) late",
    "damaged": rf"{NUMBER} frames? (?:was|were) damaged",
    "duplicates": rf"{NUMBER} repl(?:y|ies) (?:was|were) duplicates",
    "unexpected": rf"{NUMBER} frames? (?:was|were) no reply",
    "changed": rf"{NUMBER} of [\d,]+ commands? (?:was|were) changed",
    "without frame": rf"{NUMBER} ticks? (?:was|were) started by the timer",
    "early frames": rf"{NUMBER} pace frames? (?:was|were) too early",
    "not done": rf"not done in {NUMBER} of",
    "too late": rf"{NUMBER} repl(?:y|ies) (?:was|were) too late",
    "decisions late": rf"decisions?, {NUMBER} (?:was|were) late",
    "decisions cut": rf"{NUMBER} (?:was|were) cut by limits",
    "decisions clipped": rf"{NUMBER} (?:was|were) beyond `action\.clip`",
    "rate": rf"(?:ran at|rate of) {NUMBER} Hz",
}
LEVELS = ["good", "note", "warning", "bad"]


@dataclass(frozen=True)
class Truth:
    """What a sentence must contain. What is empty must not be claimed, what is `None` is not judged."""

    level: str | None
    cause: frozenset[str] | None = frozenset({""})
    servo: str | None = ""
    counts: dict[str, Any] = field(default_factory=dict)
    worst_ms: tuple[float, float] | None = None
    cure: frozenset[str] | None = frozenset()
    # What each cause cost that has a good part of it; where it is empty, only one cause may be named.
    shares: dict[str, int | None] | None = field(default_factory=dict)
    # What may be advised besides, about something else that is wrong.
    also: frozenset[str] = frozenset()


def true(level: str | None, cause: str | None = "", cure: str | None = "", also: str = "", **more: Any) -> Truth:
    """Alternatives stand beside each other: `locks|interpreter`; an empty one means no sentence."""
    causes = None if cause is None else frozenset(cause.split("|"))
    cures = None if cure is None else words(cure)
    return Truth(level, causes, cure=cures, also=words(also), **more)


def words(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split("|")))


@dataclass(frozen=True)
class Claim:
    """The content of a sentence."""

    level: str
    cause: str
    servo: str
    counts: dict[str, int]
    worst_ms: float | None
    cures: frozenset[str]
    # What each cause cost according to the sentence, and what is to be done about those besides the first.
    shares: dict[str, int]
    others: dict[str, frozenset[str]]


def read(verdict: Figures, servos: list[str]) -> Claim:
    """What this verdict claims."""
    sentences = re.split(OTHERS, verdict["text"])
    others = [text for text in sentences if text.startswith("Another ")]
    text = " ".join(text for text in sentences if text not in others)
    shared = re.search(rf"because (.*?) \({NUMBER} of [\d,]+ (?:lost|late|overrun)", text)
    found = {name: re.search(pattern, text) for name, pattern in COUNTS.items()}
    worst = re.search(rf"worst {NUMBER} (ns|µs|ms|s|min)\b", text)
    names = "|".join(map(re.escape, servos))
    advice = re.search(ADVICE, text)
    named = re.search(rf"\bby ({names})\b|\bservo ({names})\b|\(({names}) on bus", text)
    return Claim(
        level=verdict["level"],
        cause=first_cause(text),
        servo=next(filter(None, named.groups())) if named else "",
        counts={name: number(match) for name, match in found.items() if match},
        worst_ms=number(worst) * UNITS[worst[2]] if worst else None,
        cures=cures(advice),
        shares={cause: count for cause, count in [share(shared), *map(other, others)] if cause},
        others={first_cause(text): cures(re.search(ADVICE, text)) for text in others},
    )


def cures(advice: "re.Match[str] | None") -> frozenset[str]:
    return frozenset(name for name, pattern in CURES.items() if advice and re.search(pattern, advice[0]))


def share(match: "re.Match[str] | None") -> tuple[str, int]:
    """What the first cause cost."""
    return (first_cause(match[1]), int(match[2].replace(",", ""))) if match else ("", 0)


def other(text: str) -> tuple[str, int]:
    """What another did: `Another 6 periods were lost because …`, `Another period was lost because …`."""
    counted = re.match(rf"Another {NUMBER} ", text)
    return first_cause(text), number(counted) if counted else 1


def first_cause(text: str) -> str:
    """Several reasons are announced before the first of them."""
    found = {name: match.start() for name, pattern in CAUSES.items() if (match := re.search(pattern, text))}
    return min(found, key=lambda name: found[name]) if found else ""


def number(match: "re.Match[str]") -> Any:
    """The first number of a match."""
    text = next(group for group in match.groups() if group).replace(",", "")
    return float(text) if "." in text else int(text)


def differences(claim: Claim, truth: Truth, reported: Figures) -> list[str]:
    """The parts of a sentence that are not true: of `level`, `cause`, `servo`, `count`, `worst` and `cure`."""
    wrong = []
    if truth.level is not None and claim.level != truth.level:
        wrong.append("flattering" if flatters(claim, truth) else "level")
    if truth.cause is not None and claim.cause not in truth.cause:
        wrong.append("cause")
    if truth.servo is not None and claim.servo != truth.servo:
        wrong.append("servo")
    if any(not is_count(claim.counts.get(name), value, reported) for name, value in truth.counts.items()):
        wrong.append("count")
    if truth.worst_ms is not None and not is_worst(claim.worst_ms, *truth.worst_ms):
        wrong.append("worst")
    if truth.shares is not None and not are_shares(claim, truth.shares):
        wrong.append("share")
    if truth.cure is not None and not is_cure(claim.cures, truth):
        wrong.append("cure")
    return wrong


def are_shares(claim: Claim, truth: dict[str, int | None]) -> bool:
    """Each with what it cost, and with its own cure if it differs from those already given. Without shares there is no other cause."""
    if not truth:
        return not claim.others
    cures = set(claim.cures)
    for cause, shown in claim.others.items():
        cure = CURES_OF.get(cause, frozenset())
        if not (shown & cure or not shown and cures & cure):
            return False
        cures |= shown
    # What only a clock knows is not counted here.
    return set(claim.shares) == set(truth) and all(truth[cause] in (None, count) for cause, count in claim.shares.items())


def is_worst(shown: float | None, low: float, high: float) -> bool:
    """Within the range, of which three digits are printed. What has no known upper bound need not be stated."""
    return high == math.inf if shown is None else 0.994 * low <= shown <= 1.006 * high


def is_cure(shown: frozenset[str], truth: Truth) -> bool:
    """Something that helps, and nothing that does not."""
    allowed = (truth.cure or frozenset()) | truth.also
    return shown <= allowed and (not truth.cure or bool(shown & truth.cure))


def flatters(claim: Claim, truth: Truth) -> bool:
    """Something bad is called good."""
    if truth.level is None:
        return False
    return LEVELS.index(claim.level) < LEVELS.index("warning") <= LEVELS.index(truth.level)


def is_count(shown: int | None, expected: Any, reported: Figures) -> bool:
    """A number, a range of them, or the figures of the run, which other tests judge."""
    if callable(expected):
        expected = expected(reported)
    if isinstance(expected, tuple):
        return shown is not None and expected[0] <= shown <= expected[1]
    return shown == expected or (expected == 0 and shown is None)
