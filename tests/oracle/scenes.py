"""Disturbed runs in virtual time, each with what its sentence must contain: the loop's 500 Hz, the wire and the kernel's counters are as
written here, so level, cause, servo, count, worst and cure are known exactly. A seed chooses when and how long."""

import pathlib
import random
import re
from collections.abc import Callable
from typing import Any

from scenario import PERIOD_NS, SINE, Figures, robot
from sentence import CURES_OF, Truth, true

MS = 1_000_000
PERIOD_MS = PERIOD_NS / MS
PERIODS = 494
# The longest bus cycle of the two servos on CAN-FD.
CYCLE_MS = 0.5
INSTANT = 'wire = "instant"'
ROBOTS = pathlib.Path(__file__).resolve().parents[2] / "robots"
# What a cause is called, and what can be done about it.
NAMES = {"page_fault": "page fault", "previous_tick": "previous tick"}
# Nothing blocks a thread that only waits for its tick: it was stopped.
STOPPED = {"blocked": "frozen"}
# A cause is reported if it cost this part of all.
SHARE = 5


class Scene:
    """A run to be: the robot file, the script, and what each cause costs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loop, self.bus, self.controller, self.more = "", INSTANT, SINE, f"[emulation]\nseed = {seed}\n"
        self.file = ""
        self.script: dict[str, Any] = {"duration_ns": 1000 * MS, "freezes": [], "causes": [], "held": [], "begins_s": 1}
        self.lost: dict[str, int] = {}
        self.worst: dict[str, float] = {}
        self.slots = {part: self.random.sample(slots, len(slots)) for part, slots in SLOTS.items()}

    def text(self) -> str:
        """The robot file."""
        if self.file:
            return self.file
        return robot(self.loop, self.bus, self.controller) + self.more

    def cost(self, cause: str, for_ms: float) -> None:
        """A tick that ends so late loses the periods that pass meanwhile."""
        cause = NAMES.get(cause, cause)
        self.lost[cause] = self.lost.get(cause, 0) + int(for_ms // PERIOD_MS)
        self.worst[cause] = max(self.worst.get(cause, 0), for_ms)

    def length(self, low_ms: float, high_ms: float) -> float:
        """Some milliseconds, such that the bus cycle after it passes no further period."""
        drawn = self.random.uniform(low_ms, high_ms)
        if low_ms > PERIOD_MS:
            drawn = drawn // PERIOD_MS * PERIOD_MS + min(max(drawn % PERIOD_MS, 0.1), PERIOD_MS - CYCLE_MS - 0.1)
        return drawn


# Where disturbances fall: ticks by their number in the first half, planned starts in ms in the second, none near another.
SLOTS: dict[str, list[int]] = {"ticks": list(range(112, 230, 3)), "starts": list(range(640, 980, 34))}


def freeze(scene: Scene, cause: str, count: int, low_ms: float, high_ms: float) -> None:
    """The loop does not get its CPU when a tick is to start."""
    chosen = sorted(scene.slots["starts"].pop() for _ in range(count))
    lengths = [scene.length(low_ms, high_ms) for _ in chosen]
    for start, for_ms in zip(chosen, lengths):
        scene.script["freezes"].append((start * MS, round(for_ms * MS)))
        scene.script["causes"].append(cause)
        scene.cost(STOPPED.get(cause, cause), for_ms)
    in_order = sorted(zip(scene.script["freezes"], scene.script["causes"]))
    scene.script["freezes"], scene.script["causes"] = [f for f, _ in in_order], [c for _, c in in_order]


def hold(scene: Scene, part: str, cause: str, count: int, low_ms: float, high_ms: float) -> None:
    """Something in a tick takes long."""
    for _ in range(count):
        for_ms = scene.length(low_ms, high_ms)
        held = {"tick": scene.slots["ticks"].pop(), "part": part, "for_ns": round(for_ms * MS), "cause": cause}
        scene.script["held"].append(held)
        scene.cost(cause, for_ms)


def always(scene: Scene, part: str, cause: str, for_ms: float) -> None:
    """Something takes long in every tick."""
    scene.script["held"] = [
        {"tick": tick, "part": part, "for_ns": round(for_ms * MS), "cause": cause} for tick in range(600)
    ]


def figure(path: str) -> Callable[[Figures], Any]:
    """A figure of the run, which is judged elsewhere."""

    def find(reported: Figures) -> Any:
        for key in path.split("."):
            reported = reported[key]
        return reported

    return find


def level(lost: int) -> str:
    return "bad" if lost >= 0.01 * PERIODS else "warning" if lost else "good"


def mostly(scene: Scene, **more: Any) -> Truth:
    """Periods were lost, most of them to one cause; or to none of them most, where none cost more than half."""
    lost = sum(scene.lost.values())
    cause = max(scene.lost, key=lambda name: scene.lost[name])
    is_most = 2 * scene.lost[cause] > lost
    # To the end of the tick: its bus cycle, which waits for what does not come.
    after_ms = 1.7 if "faults" in scene.bus else 0 if scene.bus == INSTANT else CYCLE_MS
    named = "blocked|interpreter" if cause == "blocked" else cause
    fields: dict[str, Any] = {
        "level": level(lost),
        "cause": named if is_most else "several",
        "counts": {"lost": lost},
        "worst_ms": (scene.worst[cause], scene.worst[cause] + after_ms) if is_most else None,
        "cure": "|".join(CURES_OF[cause]) if is_most else None,
        "shares": {name: count for name, count in scene.lost.items() if SHARE * count >= lost},
    }
    return true(**{**fields, **more})


GOOD = true("good")
Make = Callable[[Scene], Truth]


def of(*acts: tuple[Any, ...], loop: str = "", bus: str = INSTANT, truth: Truth | None = None, **more: Any) -> Make:
    """A case: what happens to a run, one act after the other; what is true of it, where that is not what the acts cost."""

    def make(scene: Scene) -> Truth:
        scene.loop, scene.bus = loop, bus
        for act, *words in acts:
            act(scene, *words)
        return truth or mostly(scene, **more)

    return make


def file(name: str) -> tuple[Any, ...]:
    """One of our robots."""

    def use(scene: Scene) -> None:
        seed = f"seed = {scene.random.randrange(1000)}"
        text, found = re.subn(r"^seed = .*$", seed, (ROBOTS / name).read_text(), flags=re.M)
        scene.file = text if found else f"{text}\n[emulation]\n{seed}\n"
        scene.file = re.sub(r"^\[log\]\n", "", scene.file, flags=re.M).replace('path = "run.tlog"\n', "") + "\n[log]\nring_mib = 2\n"
        scene.script["duration_ns"] = 350 * MS

    return (use,)


def bus_missed(servo: str | None, count: Any, **more: Any) -> Truth:
    """Replies were missed, and nothing is wrong with this computer."""
    fields = {"counts": {"missed": count, "lost": 0}, "cause": "|bus", "cure": "scan"}
    return true("bad", servo=servo, **{**fields, **more})


def silence(scene: Scene, servo: int, ticks: int, at_ms: int = 0) -> None:
    """A servo sends nothing for so many ticks."""
    begin_ms = (at_ms or scene.random.randrange(300, 700, 2)) - 3
    event = f'{{ at_s = {begin_ms / 1000}, for_s = {ticks * PERIOD_MS / 1000}, kind = "silence", id = {servo} }}'
    scene.bus += f"\nfaults = {{ events = [{event}] }}" if "faults" not in scene.bus else ""
    if event not in scene.bus:
        scene.bus = scene.bus.replace("events = [", f"events = [{event}, ")


def gil(scene: Scene) -> None:
    """Another thread holds the interpreter in all ticks but a few, for nearly a period."""
    always(scene, "control", "blocked", 0)
    for held in scene.script["held"]:
        held["for_ns"] = round(scene.random.uniform(1.85, 2.02) * MS) if held["tick"] % 37 else 0


def servos(
    count: int, lenient: bool = False, rate_hz: float = 1000, family: str = 'family = "moteus"', faults: str = "", volts: float = 24
) -> tuple[Any, ...]:
    """So many servos on one bus, for which that may not have the time."""

    def use(scene: Scene) -> None:
        joints = "".join(f'[[servo]]\nname = "s{n}"\nbus = "main"\nid = {n}\n' for n in range(1, count + 1))
        supervisor = "missed_replies = 100000\nstale_ms = 100000\n" if lenient else ""
        supervisor += f"voltage_low_v = {0.8 * volts}\n" if volts < 24 else ""
        scene.file = (
            f'[robot]\nname = "many"\n[loop]\nrate_hz = {rate_hz}\n[bus.main]\nlink = "emulated"\n{faults}\n'
            f"[servo_defaults]\n{family}\n{joints}[supervisor]\n{supervisor}damping_s = 0.2\nanswer_s = 0.2\n"
            f"[log]\nring_mib = 4\n[emulation]\nsupply_v = {volts:.1f}\nseed = {scene.random.randrange(1000)}\n"
        )
        scene.script["duration_ns"] = 400 * MS

    return (use,)


def sensor(period_ms: float, without: range = range(0)) -> tuple[Any, ...]:
    """A sensor paces the loop."""

    def use(scene: Scene) -> None:
        scene.more += f'[bus.sensor]\nlink = "emulated"\n{INSTANT}\n'
        frames = [2 + period_ms * n for n in range(1500) if n not in without]
        scene.script["frames"] = [round(frame * MS) for frame in frames]

    return (use,)


PACED = 'pace_bus = "sensor"\npace_id = 7\npace_patience_us = 400'


def cut(scene: Scene) -> None:
    """Every command is beyond the joint's limits."""
    scene.controller = 'name = "sine"\namplitude = 10\nfrom_hz = 20\nto_hz = 20'


def late_freeze(scene: Scene) -> None:
    """The loop is held up after its time under control."""
    scene.script["freezes"], scene.script["causes"] = [(1010 * MS, 7_100_000)], ["preempted"]


def slow_rate(scene: Scene) -> None:
    """A loop of 20 Hz that is held up in a fourth of its ticks, and nearly loses periods."""
    scene.file = robot(bus=INSTANT, rate_hz=20.0) + scene.more
    scene.script["duration_ns"] = 9_000 * MS
    for tick in range(20, 170, 4):
        for_ms = scene.random.uniform(14, 40) if tick > 30 else 44.0
        scene.script["freezes"].append((tick * 50 * MS, round(for_ms * MS)))
        scene.script["causes"].append("preempted")


def answers_late(scene: Scene) -> None:
    scene.bus += "\nfaults = { delay_us = 1900 }"


def never(scene: Scene) -> None:
    """A servo that is not there."""
    scene.bus += '\nfaults = { events = [{ at_s = 0.0, kind = "silence", id = 2 }] }'
    scene.file = scene.text().replace("answer_s = 60", "answer_s = 0.5")


def policy(velocity: float, clip: float) -> tuple[Any, ...]:
    """The arm that a policy moves a little, with limits of its joints' velocity and of the policy's output."""

    def use(scene: Scene) -> None:
        text = (ROBOTS / "arm_policy.toml").read_text()
        text = text.replace("models/", f"{ROBOTS}/models/").replace("start_s = 1.0", "start_s = 0.1")
        text = text.replace("velocity = 3", f"velocity = {velocity}").replace('path = "arm_policy.tlog"', "ring_mib = 2")
        action = f'[controller.action]\nbetween = "linear"\nclip = [[-{clip}, {clip}]]'
        text = text.replace("scale = [0.4]", "scale = [0.02]").replace("[controller.action]", action)
        scene.file = text + f"\n[emulation]\nseed = {scene.random.randrange(1000)}\n"
        scene.script["duration_ns"] = 350 * MS

    return (use,)
