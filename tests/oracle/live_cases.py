"""Runs by the computer's own clock whose sentences are judged: what only a kernel can do to a loop. Counts are those of the run's own
figures, which others judge; how bad a disturbance is depends on the computer, so that only its least is known."""

import contextlib
import math
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scenario import RATE_HZ, Outside, freeze, nothing, wait_for
from scenes import figure
from sentence import Truth, true

CGROUPS = pathlib.Path("/sys/fs/cgroup")
CPU = min(os.sched_getaffinity(0))
Process = "subprocess.Popen[str]"
Folder = pathlib.Path


@dataclass(frozen=True)
class Live:
    """A run, its disturbance and what is true of it."""

    truth: Truth
    loop: str = ""
    # Of a controller in Python: `update`, and what stands before it.
    python: str = ""
    outside: Outside = nothing
    bus: str = ""
    # On the network: the servos are those of `khz emulate`, in a process of its own.
    udp: bool = False
    rate_hz: float = RATE_HZ
    duration_s: float = 1.1
    # Why it cannot be produced here, if it cannot.
    refused: Callable[[], str | None] = lambda: None


def not_root() -> str | None:
    return None if os.geteuid() == 0 else "takes root"


def group(controller: str) -> Folder:
    """Where groups of this controller are made: in a hierarchy of its own, or in the only one."""
    own = CGROUPS / controller
    return own if own.is_dir() else CGROUPS


def no_group(controller: str, file: str) -> Callable[[], str | None]:
    def refused() -> str | None:
        try:
            with new_group(controller) as made:
                return None if (made / file).exists() else f"a cgroup here has no {file}"
        except OSError as error:
            return f"no cgroup can be made here: {error}"

    return refused


@contextlib.contextmanager
def new_group(controller: str) -> Iterator[Folder]:
    made = group(controller) / f"khz-oracle-{os.getpid()}"
    made.mkdir()
    try:
        yield made
    finally:
        # What was in it has ended, or goes back.
        for pid in (made / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (made.parent / "cgroup.procs").write_text(pid)
        made.rmdir()


OLD_FREEZER = (CGROUPS / "freezer").is_dir()
FREEZER = ("freezer.state", "FROZEN", "THAWED") if OLD_FREEZER else ("cgroup.freeze", "1", "0")
QUOTA = ("cpu.cfs_quota_us", "50000") if (CGROUPS / "cpu").is_dir() else ("cpu.max", "50000 100000")


def frozen_group(process: Process, begun: Folder) -> None:
    """The process's cgroup is frozen four times for 30 ms."""
    file, frozen, thawed = FREEZER
    wait_for(process, begun)
    with new_group("freezer") as made:
        (made / "cgroup.procs").write_text(str(process.pid))
        for _ in range(4):
            (made / file).write_text(frozen)
            time.sleep(0.03)
            (made / file).write_text(thawed)
            time.sleep(0.05)


def quota(process: Process, begun: Folder) -> None:
    """The process's cgroup gets half a CPU, which a loop that spins uses up."""
    file, half = QUOTA
    wait_for(process, begun)
    with new_group("cpu") as made:
        (made / file).write_text(half)
        (made / "cgroup.procs").write_text(str(process.pid))
        # As a service has it: until its end. In another group it would not know what this one has counted.
        process.wait(60)


def compete(process: Process, begun: Folder) -> None:
    """A thread at FIFO 90 takes the loop's CPU, 5 ms in every 30."""
    burn = "import time\nend = time.monotonic() + 0.7\nwhile time.monotonic() < end:\n    t = time.monotonic() + 0.005\n"
    burn += "    while time.monotonic() < t: pass\n    time.sleep(0.025)"
    wait_for(process, begun)
    subprocess.run(["taskset", "-c", str(CPU), "chrt", "-f", "90", sys.executable, "-c", burn], check=True)


def compete_and_freeze(process: Process, begun: Folder) -> None:
    """One after the other."""
    compete(process, begun)
    freeze(process, begun)


def crowd(process: Process, begun: Folder) -> None:
    """Three threads a CPU that never sleep."""
    wait_for(process, begun)
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))]
    time.sleep(0.7)
    for hog in hogs:
        hog.kill()
        hog.wait()


def throttled(process: Process, begun: Folder) -> None:
    """A thread that never sleeps wants the CPU of a loop that never sleeps: the kernel stops the loop for 50 ms of each second."""
    hog = subprocess.Popen(["taskset", "-c", str(CPU), sys.executable, "-c", "while True: pass"])
    wait_for(process, begun)
    process.wait()
    hog.kill()
    hog.wait()


def bandwidth(process: Process, begun: Folder) -> None:
    """Every other CPU moves memory that no cache holds."""
    move = "a = bytearray(1 << 27)\nb = bytearray(1 << 27)\nwhile True: a[:] = b"
    wait_for(process, begun)
    hogs = [subprocess.Popen([sys.executable, "-c", move]) for _ in range(max((os.cpu_count() or 1) - 1, 1))]
    time.sleep(0.7)
    for hog in hogs:
        hog.kill()
        hog.wait()


LOST, MISSED = figure("controlled.lost_periods"), figure("controlled.missed_replies")
PINNED = f"cpu = {CPU}"
BUSY = "end = time.monotonic() + {s}\n        while time.monotonic() < end: pass"


def lost(cause: str, cure: str, at_least_ms: float = 0, shares: dict[str, int | None] | None = None) -> Truth:
    """Periods were lost, most of them to this. A computer that does something else besides may have lost more."""
    worst = (at_least_ms, math.inf)
    return true(None, cause, cure, also="scan|budget", servo=None, counts={"lost": LOST}, worst_ms=worst, shares=shares)


def python(before: str, every: int, act: str) -> str:
    """A controller that does something in some of its ticks."""
    return f"{before}\ndef update(state, command):\n    if state.tick > 120 and state.tick % {every} == 0:\n        {act}\n"


GARBAGE = """import gc
gc.disable()
kept = []
def update(state, command):
    if state.tick < 120:
        kept.append([[n] for n in range(500)])
    elif state.tick % 20 == 0:
        gc.collect()
"""
INTERPRETER, LOCKS = "interpreter|blocked", "locks|interpreter"

LIVE: dict[str, Live] = {
    "the process is stopped (SIGSTOP)": Live(lost("frozen", "frozen", 25), outside=freeze),
    "its cgroup is frozen": Live(
        # A freezer of version 1 counts nothing, and reports so.
        lost("frozen|blocked" + "|unaccounted" * OLD_FREEZER, "locks|frozen" + "|doctor" * OLD_FREEZER, 25),
        outside=frozen_group,
        refused=no_group("freezer", FREEZER[0]),
    ),
    "its cgroup has half a CPU": Live(
        lost("quota", "quota", 20),
        loop='policy = "other"\nwake = "spin"',
        outside=quota,
        refused=no_group("cpu", QUOTA[0]),
    ),
    "it spins all the time, beside a thread on its CPU (real-time throttling)": Live(
        lost("rt throttling", "throttling", 40),
        loop=PINNED + '\nwake = "spin"',
        outside=throttled,
        duration_s=2.5,
        refused=not_root,
    ),
    "one datagram in 50 is lost (UDP)": Live(
        true("bad", "|bus|preempted|unaccounted", "scan", "doctor|budget", servo=None, counts={"missed": MISSED}, shares=None),
        bus="faults = { loss = 0.02 }",
        udp=True,
        rate_hz=200.0,
    ),
    "a pipelined controller computes for 65 ms of 50": Live(
        true("warning", "pipelined controller", "faster|rate", servo=None, counts={"not done": (15, 70)}),
        loop='mode = "pipelined"',
        python="def update(state, command):\n    end = time.monotonic() + 0.065\n    while time.monotonic() < end: pass\n",
        rate_hz=20.0,
        duration_s=4.0,
    ),
    "a thread at FIFO 90 on its CPU": Live(
        lost("preempted", "doctor|pin", 3), loop=PINNED, outside=compete, refused=not_root
    ),
    "a thread at FIFO 90 on its CPU, and the process is stopped": Live(
        lost("preempted|frozen", "doctor|pin|frozen", 3, {"preempted": None, "frozen": None}),
        loop=PINNED,
        outside=compete_and_freeze,
        duration_s=2.0,
        refused=not_root,
    ),
    "other programs, without a real-time policy": Live(
        lost("preempted", "doctor|pin", 2), loop='policy = "other"', outside=crowd
    ),
    "a memory-bandwidth load on the other CPUs": Live(
        true(None, "|compute|unaccounted|bus|preempted", None, servo=None, shares=None), outside=bandwidth
    ),
    "a Python controller waits for the disk (fsync)": Live(
        lost("blocked", LOCKS),
        python=python("file = open('f', 'wb', 0)", 10, "for _ in range(5): file.write(b'x' * 4096); os.fsync(file.fileno())"),
    ),
    "a Python controller sleeps": Live(lost("blocked", LOCKS, 3), python=python("", 10, "time.sleep(0.003)")),
    "a Python controller collects garbage": Live(
        lost("controller|garbage", "faster|garbage", 3),
        python=GARBAGE,
    ),
    "a Python controller computes": Live(
        lost("controller", "faster", 3), python=python("", 10, BUSY.format(s=0.003))
    ),
    "a Python controller touches fresh memory": Live(
        lost("page fault", "memory|doctor", 2), python=python("kept = []", 20, "kept.append(b'x' * (1 << 22))")
    ),
    "another Python thread computes": Live(
        lost(INTERPRETER, LOCKS),
        python="def spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()\n"
        "def update(state, command): pass\n",
    ),
    "another Python thread's call holds the interpreter": Live(
        lost(INTERPRETER, LOCKS),
        python="def spin():\n    while True:\n        sorted(range(100000), key=int)\n        time.sleep(0.02)\n"
        "threading.Thread(target=spin, daemon=True).start()\ndef update(state, command): pass\n",
    ),
}
