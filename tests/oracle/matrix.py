"""Plays the cases of the sentences and reports which were right."""

import json
import pathlib
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scenes import Scene
from sentence import Claim, Truth, differences, read

Figures = dict[str, Any]
Make = Callable[[Scene], Truth]


@dataclass(frozen=True)
class Judged:
    """One run of a case: its sentence, that of its log, and what is wrong with them."""

    name: str
    seed: int
    truth: Truth
    text: str
    report: str
    claim: Claim
    wrong: list[str]

    def is_right(self) -> bool:
        """The sentences of `khz log report` are counted separately."""
        return not set(self.wrong) - {"log"}

    def explain(self) -> str:
        return f"{self.name}, seed {self.seed}: {', '.join(self.wrong)}\n  says {self.text}\n  read {self.claim}\n  true {self.truth}"


def play(player: pathlib.Path, folder: pathlib.Path, cases: dict[str, Make], seeds: range) -> list[Judged]:
    """All cases with all seeds, in virtual time. To read a log takes longer than to run, so that only the first is."""
    first, others = seeds[:1], seeds[1:]
    return run(player, folder, cases, first, True) + run(player, folder, cases, others, False)


def run(player: pathlib.Path, folder: pathlib.Path, cases: dict[str, Make], seeds: range, reports: bool) -> list[Judged]:
    """Some of them, by one process."""
    runs = [(name, seed) for seed in seeds for name in cases]
    words, truths = [str(player), *["--reports"] * reports], []
    for number, (name, seed) in enumerate(runs):
        scene = Scene(seed)
        truths.append(cases[name](scene))
        place = folder / f"{seed}-{number}"
        place.mkdir()
        (place / "robot.toml").write_text(scene.text())
        (place / "script.json").write_text(json.dumps(scene.script))
        words += [f"{place.name}/{file}" for file in ("robot.toml", "script.json", "run.tlog")]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    lines, each = [json.loads(line) for line in done.stdout.splitlines()], 1 + reports
    assert len(lines) == each * len(runs), f"{runs[len(lines) // each]}: {done.stderr}"
    # Each lies in a folder of its own.
    lines = [json.loads(re.sub(r"\S+/robot\.toml", "robot.toml", json.dumps(line))) for line in lines]
    return [judge(*run, truth, *lines[each * n : each * (n + 1)]) for n, (run, truth) in enumerate(zip(runs, truths))]


def judge(name: str, seed: int, truth: Truth, reported: Figures, report: Figures | None = None) -> Judged:
    verdict = reported["verdict"]
    claim = read(verdict, [servo["name"] for servo in reported.get("servos", [])])
    wrong = differences(claim, truth, reported)
    report = report or verdict
    # A log does not know where its robot file lies.
    report["text"] = report["text"].replace(" FILE", " robot.toml")
    if (report["text"], report["level"]) != (verdict["text"], verdict["level"]):
        wrong.append("log")
    return Judged(name, seed, truth, verdict["text"], report["text"], claim, wrong)
