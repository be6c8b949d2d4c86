"""The matrix of sentences as docs/time.md shows it."""

import pathlib
from collections import Counter

from matrix import Judged

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/time.md"
PARTS = ["level", "cause", "servo", "count", "worst", "share", "cure"]
Rows = dict[str, tuple[int, int, str]]


def rows(judged: list[Judged]) -> Rows:
    """Of each case: how many sentences are right, of how many, and the first of them."""
    found: Rows = {}
    for run in judged:
        right, all_runs, text = found.get(run.name, (0, 0, run.text.replace("|", "/")))
        found[run.name] = (right + run.is_right(), all_runs + 1, text)
    return found


def summary(judged: list[Judged]) -> str:
    """How many are right, and what is wrong with the others."""
    wrong = Counter(part for run in judged for part in run.wrong)
    right = sum(run.is_right() for run in judged)
    parts = ", ".join(f"{part} {len(judged) - wrong[part] - (part == 'level') * wrong['flattering']}" for part in PARTS)
    first = len(rows(judged))
    reports = first - wrong["log"]
    return (
        f"{right} of {len(judged)} sentences are right in everything ({len(rows(judged))} cases). By part: {parts}. {wrong['flattering']} call something "
        f"bad good. Of the first seed's {first} logs, `khz log report` says the same, word for word, of {reports}.\n"
    )


def table(found: Rows) -> str:
    lines = ["| what happens | right | what the run says |", "|---|---|---|"]
    lines += [f"| {name} | {right} of {runs} | {text} |" for name, (right, runs, text) in found.items()]
    return "\n".join(lines) + "\n"


def block(name: str) -> tuple[str, str, str]:
    """The page before a block, the block, and the page after it."""
    begin, end = f"<!-- {name}: UPDATE=1 cargo xtask nightly sentences -->\n", f"<!-- end of {name} -->\n"
    head, rest = PAGE.read_text().split(begin)
    inside, tail = rest.split(end)
    return head + begin, inside, end + tail


def write(name: str, judged: list[Judged]) -> None:
    head, _, tail = block(name)
    PAGE.write_text(head + summary(judged) + "\n" + table(rows(judged)) + tail)


def read(name: str) -> Rows:
    """What the page shows."""
    found: Rows = {}
    for line in block(name)[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and " of " in cells[1]:
            right, runs = cells[1].split(" of ")
            found[cells[0]] = (int(right), int(runs), cells[2].rstrip(" |"))
    return found
