"""Runs in virtual time, in which everything that goes wrong is scripted: what the figures must be is written down here.

The loop has a period of 2 ms, and its first tick is planned for 2 ms: tick n for 2·(n + 1) ms. Devices and wire take no time. Five
ticks pass until every servo has replied often enough, the sixth starts the controller, so the figures are of the ticks from
number 7 on, which starts at 16 ms; and up to the one planned for 1002 ms, which sees that the run's second is over. These are 494
periods. The figures are compared with those of the oracle, too."""

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import tlog
from judge import check_log, compare
from scenario import PERIOD_NS, Figures, robot
from scenes import Scene, file

MS = 1_000_000
INSTANT = 'wire = "instant"'


@pytest.fixture(scope="session")
def player(example: Callable[[str], pathlib.Path]) -> pathlib.Path:
    """The program that plays a script in virtual time, just built."""
    return example("virtual_run")


def play(player: pathlib.Path, folder: pathlib.Path, text: str, script: dict[str, Any]) -> Figures:
    whole = {"duration_ns": 1000 * MS, "freezes": [], "slow": [], "frames": [], **script}
    (folder / "robot.toml").write_text(text)
    (folder / "script.json").write_text(json.dumps(whole))
    words = [str(player), "robot.toml", "script.json", "run.tlog"]
    reported: Figures = json.loads(subprocess.run(words, cwd=folder, capture_output=True, check=True).stdout)
    log = tlog.read((folder / "run.tlog").read_bytes())
    compare(reported, log, sensor_paced="frames" in script)
    check_log(log)
    return reported


def late_by(count: int, sum_ms: float, max_ms: float) -> Figures:
    """A distribution of so many values with this sum and this largest one."""
    return {"count": count, "mean": sum_ms * MS / count, "max": round(max_ms * MS)}


def no_lateness(count: int) -> Figures:
    return {"count": count, "min": 0, "mean": 0, "sigma": 0, "max": 0}


def inside(ticks: int, lost: int, **more: int) -> Figures:
    return {"ticks": ticks, "lost_periods": lost, "periods": ticks + lost, "late_wakes": 0, "overruns": 0, **more}


def late_ticks(judged: int, **causes: int) -> Figures:
    names = ["previous_tick", "preempted", "blocked", "page_fault", "unaccounted", "controller", "bus", "compute"]
    return {"judged": judged, "causes": {"late": sum(causes.values()), **{name: causes.get(name, 0) for name in names}}}


CALM = {
    "controlled": inside(494, 0, duration_ns=988 * MS),
    "rate_hz": 500.0,
    "wake_latency_ns": no_lateness(494),
    "start_delay_ns": no_lateness(494),
    "period_ns": {"min": 2 * MS, "max": 2 * MS, "sigma": 0},
    "lost_time": {"ticks": 0},
    "late": late_ticks(394),
    "ended_well": True,
}

# Frozen for 15.3 ms from 500 ms on, when tick 249 should start: it starts at 515.3 ms. The periods of 500 to 512 ms are
# lost, and these and that of 514 ms started 15.3, 13.3 … 1.3 ms late, 66.4 ms together. The fifth of these is the 99th
# percentile of 494.
FREEZE = {"freezes": [(500 * MS, 15_300_000)]}
FROZEN = {
    "skipped": 7,
    "late_wakes": 1,
    "overruns": 0,
    "start_delay_ns": {**late_by(494, 66.4, 15.3), "p50": 0, "p90": 0, "p99": pytest.approx(7.3 * MS, rel=1e-3)},
    "lost_time": {"ticks": 1, "causes": {"unaccounted": 1}, "time_ns": {"unaccounted": 15_300_000}},
}
FROZEN_IN_PHASE = {
    **FROZEN,
    "controlled": inside(487, 7, late_wakes=1, duration_ns=988 * MS),
    "rate_hz": 487 / 0.988,
    "wake_latency_ns": {**late_by(487, 15.3, 15.3), "p99": 0},
    "period_ns": {"min": 700_000, "max": 17_300_000},
    "late": late_ticks(387, unaccounted=1),
}

# Tick 250, planned for 502 ms, takes 5 ms: it ends at 507 ms, after what was planned for 504 and 506 ms.
SLOW = {"slow": [(250, 5 * MS)]}
OVERRAN = {"overruns": 1, "late_wakes": 0, "control_ns": {"max": 5 * MS}}

# The loop goes on as soon as the tick before is over, 1 ms after the time it waited for.
LATE_ONCE = {
    **OVERRAN,
    "skipped": 1,
    "controlled": inside(493, 1, overruns=1, duration_ns=988 * MS),
    "wake_latency_ns": late_by(493, 1, 1),
    "start_delay_ns": late_by(494, 3 + 1, 3),
    "lost_time": {"ticks": 1, "causes": {"previous_tick": 1}, "time_ns": {"previous_tick": MS, "unaccounted": 0}},
    "late": late_ticks(393, controller=1, previous_tick=1),
}

TIMED = {
    "calm": ("skip", {}, CALM),
    "frozen, skip": ("skip", FREEZE, FROZEN_IN_PHASE),
    "frozen, run_late_once": ("run_late_once", FREEZE, FROZEN_IN_PHASE),
    # Planned for 515.3, 517.3 … 1003.3 ms from then on: 8.65 periods behind is 8 after 7 and a rest, rounded.
    "frozen, re_phase": (
        "re_phase",
        FREEZE,
        {
            **FROZEN,
            "controlled": inside(487, 8, late_wakes=1, duration_ns=989_300_000),
            "period_ns": {"min": 2 * MS, "max": 17_300_000},
            "late": late_ticks(387, unaccounted=1),
        },
    ),
    # Comes down in the late tick.
    "frozen, stop": (
        "stop",
        FREEZE,
        {
            "skipped": 7,
            "late_wakes": 1,
            "controlled": inside(243, 8, late_wakes=1, duration_ns=501_300_000),
            "start_delay_ns": late_by(250, 66.4, 15.3),
            "ended_well": False,
        },
    ),
    # Too short to cost a period.
    "frozen for 0.3 ms": (
        "skip",
        {"freezes": [(500 * MS, 300_000)]},
        {
            **CALM,
            "skipped": 0,
            "wake_latency_ns": late_by(494, 0.3, 0.3),
            "start_delay_ns": late_by(494, 0.3, 0.3),
            "period_ns": {"min": 1_700_000, "max": 2_300_000},
            "lost_time": {"ticks": 1, "time_ns": {"unaccounted": 300_000}},
            "late": late_ticks(394, unaccounted=1),
        },
    ),
    "frozen while it comes down": (
        "skip",
        {"freezes": [(1010 * MS, 7_100_000)]},
        {
            **CALM,
            "skipped": 3,
            "late_wakes": 1,
            "outside": {"lost_periods": 3, "late_wakes": 1},
            "wake_latency_outside_ns": {"max": 7_100_000},
        },
    ),
    # The next tick waits for 508 ms, so the period of 504 ms starts 4 ms late, that of 506 ms 2 ms.
    "a slow tick, skip": (
        "skip",
        SLOW,
        {
            **OVERRAN,
            "skipped": 2,
            "controlled": inside(492, 2, overruns=1, duration_ns=988 * MS),
            "wake_latency_ns": no_lateness(492),
            "start_delay_ns": late_by(494, 4 + 2, 4),
            "lost_time": {"ticks": 0},
            "late": late_ticks(392, controller=1),
        },
    ),
    "a slow tick, run_late_once": ("run_late_once", SLOW, LATE_ONCE),
    # Planned for 507, 509 … 1003 ms from then on.
    "a slow tick, re_phase": (
        "re_phase",
        SLOW,
        {
            **OVERRAN,
            "skipped": 1,
            "controlled": inside(493, 2, overruns=1, duration_ns=989 * MS),
            "wake_latency_ns": no_lateness(493),
            "start_delay_ns": late_by(494, 3 + 1, 3),
            "lost_time": {"ticks": 0},
            "late": late_ticks(393, controller=1),
        },
    ),
    "a slow tick, stop": (
        "stop",
        SLOW,
        {
            **OVERRAN,
            "skipped": 1,
            "controlled": inside(245, 2, overruns=1, duration_ns=493 * MS),
            "start_delay_ns": late_by(246, 3 + 1, 3),
            "ended_well": False,
        },
    ),
    # Every tick takes 2.2 ms and none is skipped, so only falling behind shows: tick n starts at 14 + 2.2·(n - 6) ms, the last
    # controlled one, 456, at 1004 ms.
    "every tick is slow, re_phase": (
        "re_phase",
        {"slow": [(tick, 2_200_000) for tick in range(600)]},
        {
            "skipped": 0,
            "controlled": inside(450, 45, overruns=449, duration_ns=990 * MS),
            "rate_hz": 1000 / 2.2,
            "period_ns": {"min": 2_200_000, "max": 2_200_000},
            "control_ns": {"count": 450, "min": 2_200_000, "max": 2_200_000},
            "late": late_ticks(350),
        },
    ),
}


def on_time(n: int) -> float:
    """When frame n comes, in ms."""
    return 2.0 * n


def frames(*times_ms: float) -> dict[str, Any]:
    return {"frames": sorted(round(time * MS) for time in times_ms)}


def sensor(time: Callable[[int], float], chosen: Callable[[int], bool] = lambda n: True) -> dict[str, Any]:
    return frames(*[time(n) for n in range(1, 1500) if chosen(n)])


# The timer takes over 0.4 ms after a frame was expected.
PATIENCE_NS = 400_000
PACED = {
    "on time": (sensor(on_time), {**CALM, "early_frames": 0, "ticks_without_frame": 0}),
    # 500 frames of 1.98 ms from tick 7 on until the second is over, at 1003.88 ms: no period is lost, as the sensor's clock
    # decides how many there are.
    "1 % fast": (
        sensor(lambda n: 2 + 1.98 * (n - 1)),
        {
            "controlled": inside(500, 0, duration_ns=990 * MS),
            "rate_hz": 500 / 0.99,
            "start_delay_ns": no_lateness(500),
            "period_ns": {"min": 1_980_000, "max": 1_980_000},
            "ticks_without_frame": 0,
            "early_frames": 0,
        },
    ),
    # In time, and once more 0.5 ms later.
    "doubled": (
        frames(*[on_time(n) + more for n in range(1, 1500) for more in (0, 0.5)]),
        {**CALM, "ticks_without_frame": 0},
    ),
    # Every tenth 0.3 ms late, which the loop waits for: its tick is planned for when it comes.
    "late": (
        sensor(lambda n: on_time(n) + (0.3 if n % 10 == 0 else 0)),
        {
            **CALM,
            "period_ns": {"min": 1_700_000, "max": 2_300_000},
            "ticks_without_frame": 0,
            "early_frames": 0,
        },
    ),
    # One that comes 0.8 ms late finds the timer's tick running in its place, and is too early for the next.
    "later than the patience": (
        sensor(lambda n: on_time(n) + (0.8 if n == 250 else 0)),
        {
            **CALM,
            "start_delay_ns": late_by(494, 0.4, 0.4),
            "period_ns": {"min": 1_600_000, "max": 2_400_000},
            "ticks_without_frame": 1,
            "early_frames": 1,
        },
    ),
    # Of frames 8 to 501, which start the controlled ticks, 50 are missing.
    "every tenth missing": (
        sensor(on_time, lambda n: n % 10 != 0),
        {
            **CALM,
            "start_delay_ns": late_by(494, 50 * 0.4, 0.4),
            "period_ns": {"min": 1_600_000, "max": 2_400_000},
            "early_frames": 0,
        },
    ),
    "silent for 100 ms": (
        sensor(on_time, lambda n: not 250 <= n < 300),
        {
            **CALM,
            "start_delay_ns": late_by(494, 50 * 0.4, 0.4),
            "period_ns": {"min": 1_600_000, "max": 2_400_000},
            "ticks_without_frame": 50,
            "early_frames": 0,
        },
    ),
    "frozen": ({**sensor(on_time), **FREEZE}, {**FROZEN_IN_PHASE, "ticks_without_frame": 0, "early_frames": 0}),
    # The tick that ends at 507 ms finds the frames of 504 and 506 ms, and the next runs for the newer. It waited for the older.
    "a slow tick": (
        {**sensor(on_time), **SLOW},
        {
            "skipped": 1,
            "overruns": 1,
            "late_wakes": 1,
            "controlled": inside(493, 1, overruns=1, late_wakes=1, duration_ns=988 * MS),
            "wake_latency_ns": late_by(493, 3, 3),
            "start_delay_ns": late_by(494, 3 + 1, 3),
            "lost_time": {"ticks": 1, "causes": {"previous_tick": 1}, "time_ns": {"previous_tick": 3 * MS}},
            "late": late_ticks(393, controller=1, previous_tick=1),
        },
    ),
}


@pytest.mark.parametrize("name", TIMED)
def test_a_scripted_run_has_the_figures_it_must_have(player: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    overrun, script, expected = TIMED[name]
    reported = play(player, tmp_path, robot(f'overrun = "{overrun}"', INSTANT), script)
    must_be(expected, reported, name)


@pytest.mark.parametrize("name", PACED)
def test_a_scripted_sensor_gives_the_figures_it_must_give(
    player: pathlib.Path, tmp_path: pathlib.Path, name: str
) -> None:
    script, expected = PACED[name]
    loop = f'pace_bus = "sensor"\npace_id = 7\npace_patience_us = {PATIENCE_NS / 1000}'
    text = robot(loop, INSTANT) + f'[bus.sensor]\nlink = "emulated"\n{INSTANT}\n'
    reported = play(player, tmp_path, text, script)
    must_be(expected, reported, name)
    if name == "doubled":
        assert reported["early_frames"] == reported["ticks"] - 1
    if name == "every tenth missing":
        assert reported["ticks_without_frame"] == reported["ticks"] // 10


@pytest.mark.parametrize("name", ["quadruped", "mixed", "openarm_like"])
def test_a_stall_is_borne_for_as_long_as_check_says(
    khz: str, player: pathlib.Path, tmp_path: pathlib.Path, name: str
) -> None:
    scene = Scene(1)
    file(f"{name}.toml")[0](scene)
    (tmp_path / "robot.toml").write_text(scene.text())
    words = [khz, "check", "robot.toml", "--json"]
    checked = json.loads(subprocess.run(words, cwd=tmp_path, capture_output=True, check=True).stdout)
    # What is beyond it by two periods comes too late for every watchdog.
    bearable_ns, period_ns = round(checked["bearable_stall_s"] * 1e9), round(1e9 / checked["rate_hz"])
    for for_ns, well in ((bearable_ns - 100_000, True), (bearable_ns + 3 * period_ns, False)):
        script = {**scene.script, "duration_ns": 900 * MS, "freezes": [(600 * MS, for_ns)], "causes": ["preempted"]}
        (tmp_path / "script.json").write_text(json.dumps(script))
        words = [str(player), "robot.toml", "script.json", f"{well}.tlog"]
        reported = json.loads(subprocess.run(words, cwd=tmp_path, capture_output=True, check=True).stdout)
        assert reported["ended_well"] == well, (for_ns, reported["end"])


def must_be(expected: Any, reported: Any, path: str) -> None:
    """Everything that is expected; figures that are not mentioned are the oracle's business."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            must_be(value, reported[key], f"{path}: {key}")
    elif isinstance(expected, float):
        assert reported == pytest.approx(expected, rel=1e-12), path
    else:
        assert reported == expected, f"{path}: {reported} instead of {expected}"
