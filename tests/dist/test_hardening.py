"""What `khz@.service` takes from a robot's program, and that the program needs none of it."""

import pathlib
import re
import subprocess

from release import ROOT

UNIT = ROOT / "packaging/khz@.service"
# What systemd gives to any service ("@default" is in "@system-service"), and a kernel newer than its list.
UNLISTED = {"rseq"}


def settings(key: str) -> "list[str]":
    lines = UNIT.read_text().splitlines()
    return [line.split("=", 1)[1] for line in lines if line.startswith(f"{key}=")]


def calls(group: str) -> "set[str]":
    """The system calls of a group, with those of the groups in it."""
    command = ["systemd-analyze", "syscall-filter", group]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[1:]
    names = {word.strip() for word in words if word.strip() and not word.strip().startswith("#")}
    return {call for name in names for call in (calls(name) if name.startswith("@") else {name})}


def allowed() -> "set[str]":
    # Those that need no more than to exist ("getuid") stay with it, as systemd has it: a later line takes away, and nothing gives back.
    allowed: "set[str]" = set()
    for words in settings("SystemCallFilter"):
        group = calls(words.removeprefix("~"))
        allowed = allowed - group if words.startswith("~") else allowed | group
    return allowed


def test_its_exposure_is_low() -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=30", UNIT]
    done = subprocess.run(command, capture_output=True, text=True)
    level = re.search(r"Overall exposure level .*: (\d+\.\d)", done.stdout)
    assert level and float(level[1]) < 3.0 and done.returncode == 0, done.stdout


def test_a_run_makes_no_system_call_that_is_refused(khz: str, tmp_path: pathlib.Path) -> None:
    """In real time, with a log, a report and a live view, brought down by SIGINT as systemd does it."""
    trace = tmp_path / "trace"
    robot = ROOT / "robots/pan_tilt.toml"
    command = ["strace", "-f", "-qq", "-o", str(trace), khz, "run", str(robot), "--duration", "3s", "--view=127.0.0.1:0"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    made = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE))
    # It asks for real time, and for memory that stays.
    assert {"sched_setscheduler", "sched_setattr"} & made and "mlockall" in made, made
    assert not made - allowed() - UNLISTED
    families = set(re.findall(r"^\d+ +socket\((\w+)", trace.read_text(), re.MULTILINE))
    assert families <= set(settings("RestrictAddressFamilies")[0].split()), families


def test_real_time_is_not_taken_from_it() -> None:
    assert settings("LimitRTPRIO") == ["98"] and settings("LimitMEMLOCK") == ["infinity"]
    taken = ["RestrictRealtime", "MemoryDenyWriteExecute", "PrivateDevices", "PrivateNetwork", "ProtectProc"]
    assert not [key for key in taken if settings(key)]
    assert "/dev/cpu_dma_latency rw" in settings("DeviceAllow")
