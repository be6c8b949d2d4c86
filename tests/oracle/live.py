"""Plays the cases that need the computer's own clock."""

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import matrix
from live_cases import LIVE, Live
from scenario import Figures, result, robot, start


def play(khz: str, folder: pathlib.Path, name: str, seed: int) -> matrix.Judged:
    """One run of a case, judged."""
    case = LIVE[name]
    with devices(khz, folder, case) as text:
        process = start_python(folder, text, case) if case.python else start(khz, folder, text, case.duration_s)
        reported: Figures = result(process, case.outside, folder / "run.tlog")
    return matrix.judge(name, seed, case.truth, reported)


@contextlib.contextmanager
def devices(khz: str, folder: pathlib.Path, case: Live) -> Iterator[str]:
    """The robot file, while its servos are there."""
    emulated = robot(case.loop, case.bus, rate_hz=case.rate_hz)
    if not case.udp:
        yield emulated
        return
    (folder / "devices.toml").write_text(robot(rate_hz=case.rate_hz))
    words = [khz, "emulate", "devices.toml", "--at", "main=udp:127.0.0.1:0"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().split()[1].removeprefix("udp:")
        yield robot(case.loop, f'address = "{address}"\n{case.bus}', link="udp", rate_hz=case.rate_hz)
        process.terminate()


def start_python(folder: pathlib.Path, text: str, case: Live) -> "subprocess.Popen[str]":
    (folder / "robot.toml").write_text(text)
    program = f"import json, os, threading, time\nimport kilohertz\n{case.python}\n"
    program += f"summary = kilohertz.Robot('robot.toml').run(update, duration={case.duration_s}, log='run.tlog')\n"
    program += "print(json.dumps(summary))\n"
    words = [sys.executable, "-c", program]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
