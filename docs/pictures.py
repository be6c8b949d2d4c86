"""Draws the pictures of the documentation anew, in `docs/images`: `cargo xtask site --all` runs it.

    python docs/pictures.py KHZ [tick states report live feedback]

`tick.svg` shows a tick as `khz budget` predicts it, `states.svg` the supervisor's phases, `report.png` the first screen of a report, and
`live.webp` the live view of a robot that walks, `feedback.svg` what is measured in `docs/feedback.tsv`. Report and live view run the emulated quadruped in real time; they want Chromium
(`$CHROMIUM`, or the one in the path), and a computer that holds 1000 Hz for five seconds.
"""

import html
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
#: A run on a computer that does other things, too, may have to be repeated until it is a good one.
TRIES = 30
#: What `khz run` prints, in README.md.
SAMPLE = re.compile(r"^```\nHeld .*?^```\n", re.M | re.S)
FONT = "font-family='system-ui, sans-serif'"
INK, FAINT, BLUE, ORANGE, GREEN = "#1f2328", "#8c959f", "#0969da", "#bc4c00", "#1a7f37"


def svg(width: int, height: int, parts: Iterable[str]) -> str:
    size = f"viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
    # White, also on a dark page.
    paper = f"<rect width='{width}' height='{height}' rx='8' fill='#ffffff'/>"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT} font-size='13'>{paper}{''.join(parts)}</svg>\n"


def label(x: float, y: float, text: str, anchor: str = "start", fill: str = INK, extra: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{fill}' {extra}>{html.escape(text)}</text>"


def tick(khz: str) -> None:
    """The built-in quadruped's tick: what is on each bus, and what the computer does, over one period."""
    words = [khz, "budget", "robots/quadruped.toml", "--json"]
    predicted = json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout)["prediction"]
    spans, period = predicted["timeline"]["spans"], predicted["period_ns"]
    left, right, top, lane = 100, 20, 64, 34
    rows = list(dict.fromkeys(span["row"] for span in spans if not span["row"].endswith(" devices")))
    width, height = 860, top + lane * len(rows) + 66
    across = (width - left - right) / period
    colours = {"command": BLUE, "reply": ORANGE, "turnaround": "#d8dee4", "imu": ORANGE}
    parts = [label(left, 24, f"One tick of 12 servos on 4 buses: {period / 1000:.0f} µs", extra="font-weight='600'")]
    keys = ((BLUE, "command"), ("#d8dee4", "servo at work"), (ORANGE, "reply"), (GREEN, "computer"))
    for index, (colour, text) in enumerate(keys):
        parts.append(f"<rect x='{left + 120 * index}' y='36' width='12' height='12' fill='{colour}'/>")
        parts.append(label(left + 120 * index + 18, 47, text))
    for index, row in enumerate(rows):
        y = top + lane * index
        parts.append(label(left - 10, y + 20, row.replace("_", " "), "end"))
        parts.append(f"<line x1='{left}' x2='{width - right}' y1='{y + 30}' y2='{y + 30}' stroke='#eaeef2'/>")
    # What the servos do lies behind what is on their bus.
    for span in sorted(spans, key=lambda span: span["kind"] != "turnaround"):
        y = top + lane * rows.index(span["row"].removesuffix(" devices"))
        begin, length = left + span["start_ns"] * across, max((span["end_ns"] - span["start_ns"]) * across - 1, 1.5)
        thin = span["kind"] == "turnaround"
        title = f"<title>{html.escape(' '.join((span['kind'], span['detail'])))}</title>"
        fill = colours.get(span["kind"], GREEN)
        parts.append(f"<rect x='{begin:.1f}' y='{y + (22 if thin else 8)}' width='{length:.1f}' height='{6 if thin else 14}' fill='{fill}'>{title}</rect>")
    bottom = top + lane * len(rows)
    for at in range(0, period + 1, period // 10):
        x = left + at * across
        parts.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{bottom}' y2='{bottom + 5}' stroke='{FAINT}'/>")
        parts.append(label(x, bottom + 19, f"{at / 1000:.0f}", "middle", FAINT))
    parts.append(label(width - right, bottom + 36, "µs since the tick began", "end", FAINT))
    done = left + predicted["tick_ns"] * across
    sentence = f"All commands are queued before the first reply is read. State, controller and log are done after {predicted['tick_ns'] / 1000:.0f} µs."
    parts.append(f"<line x1='{done:.1f}' x2='{done:.1f}' y1='{top}' y2='{bottom}' stroke='{GREEN}' stroke-dasharray='3 3'/>")
    parts.append(label(left, bottom + 54, sentence))
    (IMAGES / "tick.svg").write_text(svg(width, height, parts))


#: A line may pass behind a text.
HALO = "font-size='11.5' stroke='#ffffff' stroke-width='4' paint-order='stroke'"

#: Phases of the supervisor, and where each is drawn.
PHASES = {
    "Init": (90, 60),
    "Idle": (330, 60),
    "Armed": (570, 60),
    "Active": (780, 60),
    "Damping": (780, 250),
    "Stopped": (500, 250),
    "Fault": (210, 250),
}
#: From, to, what causes it (a line each), where the text is, and how far the line is bent.
CHANGES = [
    ("Init", "Idle", ["every servo replies", "without a fault"], (210, 32), -14),
    ("Idle", "Init", ["a servo is silent", "or has a fault"], (256, 90), -14),
    ("Idle", "Armed", ["armed, within limits,", "operator present"], (450, 32), 0),
    ("Armed", "Active", ["controller", "started"], (677, 32), 0),
    ("Active", "Damping", ["trigger, operator,", "end of the run"], (850, 150), 0),
    ("Damping", "Stopped", ["still, or damping", "time over"], (640, 226), 0),
    ("Stopped", "Fault", ["a servo may still", "be on"], (355, 226), 0),
    ("Damping", "Fault", ["after a trigger: still, or damping time over"], (500, 318), 60),
    ("Init", "Fault", ["not all replied", "in time"], (196, 150), 0),
    ("Idle", "Fault", ["armed outside limits,", "or moving too fast"], (366, 118), 0),
    ("Stopped", "Init", ["re-armed"], (335, 180), 0),
    ("Fault", "Init", ["re-armed"], (104, 160), -14),
]


def states(_khz: str) -> None:
    """The supervisor's phases, as `docs/safety.md` describes them."""
    width, height, half, tall = 920, 340, 50, 19
    arrow = f"<defs><marker id='a' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='8' markerHeight='8' orient='auto'><path d='M0 0L8 4L0 8z' fill='{FAINT}'/></marker></defs>"
    parts = [arrow, f"<circle cx='14' cy='60' r='6' fill='{INK}'/>", line((22, 60), (90 - half, 60), 0)]
    for before, after, lines, (x, y), bend in CHANGES:
        parts.append(line(*edge(PHASES[before], PHASES[after], half, tall, bend), bend))
        parts += [label(x, y + 15 * index, text, "middle", extra=HALO) for index, text in enumerate(lines)]
    for name, (x, y) in PHASES.items():
        fill = {"Active": "#dafbe1", "Fault": "#ffebe9", "Damping": "#fff8c5"}.get(name, "#ddf4ff")
        parts.append(f"<rect x='{x - half}' y='{y - tall}' width='{2 * half}' height='{2 * tall}' rx='10' fill='{fill}' stroke='{FAINT}'/>")
        parts.append(label(x, y + 5, name, "middle", extra="font-weight='600'"))
    (IMAGES / "states.svg").write_text(svg(width, height, parts))


Point = tuple[float, float]


def edge(one: Point, other: Point, half: float, tall: float, bend: float) -> tuple[Point, Point]:
    """Where the line between two boxes leaves the one and meets the other."""

    def at(box: Point, towards: Point) -> Point:
        across, down = towards[0] - box[0], towards[1] - box[1]
        if abs(down) < 1:
            return box[0] + (half if across > 0 else -half), box[1] + (bend / 2 if abs(bend) < 30 else tall)
        if abs(bend) >= 30 or abs(across) < 1:
            return box[0] + bend, box[1] + (tall if down > 0 else -tall)
        aside = max(-half + 8, min(half - 8, bend + across * 0.15))
        return box[0] + aside, box[1] + (tall if down > 0 else -tall)

    if abs(one[1] - other[1]) < 1 and abs(bend) < 30 and bend:
        sign = 1 if other[0] < one[0] else -1
        one, other = (one[0], one[1] + sign * abs(bend) / 2), (other[0], other[1] + sign * abs(bend) / 2)
        bend = 0
    return at(one, other), at(other, one)


def line(one: Point, other: Point, bend: float) -> str:
    (x, y), (to_x, to_y) = one, other
    dip = bend if abs(bend) >= 30 else 0
    return (
        f"<path d='M{x:.1f} {y:.1f}Q{(x + to_x) / 2:.1f} {(y + to_y) / 2 + dip:.1f} {to_x:.1f} {to_y:.1f}' fill='none' "
        f"stroke='{FAINT}' stroke-width='1.4' marker-end='url(#a)'/>"
    )


def shown(look: Callable[[Any], None]) -> None:
    """Has a browser look at something."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        look(browser)
        browser.close()


def report(khz: str) -> None:
    """The first screen of the report of a good run, and what the command printed at its end: README.md has both."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TRIES):
            words = [khz, "run", "--duration", "5s", "--log", "run.tlog"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.stdout.startswith("Held 1000 Hz.\n"):
                break
            for file in pathlib.Path(folder).iterdir():
                file.unlink()
        else:
            sys.exit(f"this computer did not hold 1000 Hz in {TRIES} runs; try again when it does nothing else\n{done.stdout}{done.stderr}")
        readme = ROOT / "README.md"
        text, found = SAMPLE.subn(lambda _: f"```\n{done.stdout}```\n", readme.read_text())
        assert found == 1, "README.md has one block with the end of a run"
        readme.write_text(text)

        def look(browser: Any) -> None:
            page = browser.new_page(viewport={"width": 1200, "height": 760}, device_scale_factor=1.5)
            page.goto((pathlib.Path(folder) / "run.html").as_uri())
            page.wait_for_timeout(1500)
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(64, dither=Image.Dither.NONE).save(IMAGES / "report.png", optimize=True)

        shown(look)


def live(khz: str) -> None:
    """Three seconds of the live view of a robot that walks, at 200 Hz, which a computer that draws pictures holds, too."""
    from PIL import Image

    frames: list[Any] = []
    robot = (ROOT / "robots/quadruped_walk.toml").read_text()
    assert "rate_hz = 1000" in robot
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "walk.toml").write_text(robot.replace("rate_hz = 1000", "rate_hz = 200"))
        words = [khz, "run", "walk.toml", "--view", "--duration", "60s"]
        with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
            assert run.stderr is not None
            link = next(text.split()[-1] for text in run.stderr if "live view:" in text)

            def look(browser: Any) -> None:
                page = browser.new_page(viewport={"width": 1000, "height": 780})
                page.goto(link)
                page.wait_for_timeout(3000)
                top = page.locator("#robot").bounding_box()["y"] - 110
                page.evaluate(f"scrollTo(0, {top})")
                page.keyboard.down("w")
                page.wait_for_timeout(6000)
                for _ in range(26):
                    frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
                    page.wait_for_timeout(30)
                page.keyboard.up("w")

            shown(look)
            run.terminate()
    frames[0].save(IMAGES / "live.webp", save_all=True, append_images=frames[1:], duration=110, loop=0, quality=35, method=6)


def feedback(_khz: str) -> None:
    """How much torque a leader may be given back before the pair is not passive any more, by the delay of its loop (`docs/feedback.tsv`)."""
    rows = [line.split("\t") for line in (ROOT / "docs/feedback.tsv").read_text().splitlines()[1:]]
    curves: dict[str, list[tuple[float, float]]] = {}
    for jerk, late, share in rows:
        curves.setdefault(jerk, []).append((float(late), float(share)))
    left, right, top, bottom, width, height = 60, 170, 46, 50, 860, 330
    longest = max(late for points in curves.values() for late, _ in points)
    most = max(share for points in curves.values() for _, share in points) * 1.1

    def x(late: float) -> float:
        return left + (width - left - right) * late / longest

    def y(share: float) -> float:
        return top + (height - top - bottom) * (1 - share / most)

    parts = [label(left, 24, "The share of its follower's torque with which a leader stops being passive (emulated)", extra="font-weight='600'")]
    for hundredths in range(0, round(most * 100) + 1, 5):
        share = hundredths / 100
        parts.append(f"<line x1='{left}' x2='{width - right}' y1='{y(share):.1f}' y2='{y(share):.1f}' stroke='#eaeef2'/>")
        parts.append(label(left - 8, y(share) + 4, f"{share:.2f}", "end", FAINT))
    for late in range(0, round(longest) + 1, 5):
        parts.append(label(x(late), height - bottom + 20, f"{late}", "middle", FAINT))
    parts.append(label(width - right, height - 10, "ms that each way takes longer than in a loop of 1 kHz", "end", FAINT))
    for (jerk, points), colour, beside in zip(curves.items(), (BLUE, ORANGE), (-3, 11), strict=True):
        path = " ".join(f"{x(late):.1f},{y(share):.1f}" for late, share in points)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts.append(label(x(points[-1][0]) + 8, y(points[-1][1]) + beside, f"jerk = {int(jerk):,}", fill=colour))
    (IMAGES / "feedback.svg").write_text(svg(width, height, parts))


PICTURES = {"tick": tick, "states": states, "report": report, "live": live, "feedback": feedback}

if __name__ == "__main__":
    command = str(pathlib.Path(sys.argv[1]).resolve())
    for picture in sys.argv[2:] or PICTURES:
        PICTURES[picture](command)
        print(f"drawn: {picture}")
