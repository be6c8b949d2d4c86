"""What a page shows first: the verdict; and what is folded, zoomed and narrow."""

import json
import pathlib
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from test_reports import COLOURED_PIXELS, drag, plot, view

# The first that needs the sample pages builds the example that writes them.
pytestmark = pytest.mark.timeout(900)

Visit = Callable[..., Page]
RunKhz = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(run_khz: RunKhz, tmp_path: pathlib.Path) -> Iterator[dict[str, object]]:
    """A run in virtual time, as JSON; its page lies beside it."""
    made = run_khz("run", "--virtual", "--duration", "1s", "--json", "--require", "rate=2000", "--report", "run.html")
    assert made.returncode == 1, made.stderr
    yield json.loads(made.stdout)


def test_the_sentence_and_the_badge_are_those_of_the_json(visit: Visit, run: dict[str, object], tmp_path: pathlib.Path) -> None:
    page = visit(tmp_path / "run.html")
    verdict, controlled = run["verdict"], run["controlled"]
    assert isinstance(verdict, dict) and isinstance(controlled, dict)
    ticks = controlled["ticks"]
    judged = f"Not met: rate is 1000.000 Hz over {ticks} ticks ({ticks} ms); at least 2000.000 Hz is required."
    assert verdict["text"].startswith(judged)
    assert page.locator("header .verdict").inner_text() == verdict["text"]
    badge = page.locator("header .badge")
    assert badge.inner_text() == verdict["headline"] == "1 of 1 requirement not met"
    assert "bad" in (badge.get_attribute("class") or "").split()


def test_what_is_folded_is_drawn_once_it_is_open(visit: Visit, run: dict[str, object], tmp_path: pathlib.Path) -> None:
    page = visit(tmp_path / "run.html")
    for title in ["Velocity", "Torque", "Tracking error", "Temperature", "Voltage", "IMU: angular rate", "IMU: acceleration"]:
        fold = page.locator("details.fold", has=page.locator("summary", has_text=title))
        assert fold.locator("canvas").count() == 0, title
        fold.locator("summary").click()
        fold.locator("canvas").first.wait_for()
        assert fold.locator("canvas").first.evaluate(COLOURED_PIXELS) > 20, title


def test_a_folded_plot_opens_at_the_zoom_of_the_others(visit: Visit, run: dict[str, object], tmp_path: pathlib.Path) -> None:
    page = visit(tmp_path / "run.html")
    cycle = plot(page, "Cycle time")
    drag(page, cycle, 0.3, 0.5)
    fold = page.locator("details.fold", has=page.locator("summary", has_text="Voltage"))
    fold.locator("summary").click()
    voltage = fold.locator("figure.plot")
    voltage.locator("canvas").wait_for()
    assert view(voltage) == view(cycle)


def test_the_tooltip_follows_a_zoom(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html")
    figure = plot(page, "Cycle time")
    drag(page, figure, 0.4, 0.6)
    low, high = view(figure)
    seconds = float(figure.locator(".tip b").inner_text().split()[0])
    assert low <= seconds <= high
    page.keyboard.press("Escape")
    figure.locator("canvas").dblclick()
    assert float(figure.locator(".tip b").inner_text().split()[0]) > 0


def test_a_limit_far_away_is_named_and_does_not_flatten_the_curve(visit: Visit, run: dict[str, object], tmp_path: pathlib.Path) -> None:
    page = visit(tmp_path / "run.html")
    figure = plot(page, "front_left_hip")
    highest = figure.locator("canvas").evaluate(
        """canvas => {
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const rows = new Set();
          for (let i = 0; i < data.length; i += 4) {
            const [r, g, b, a] = data.slice(i, i + 4);
            if (a > 128 && Math.max(r, g, b) - Math.min(r, g, b) > 60) rows.add(Math.floor(i / 4 / width));
          }
          return rows.size / height;
        }"""
    )
    assert highest > 0.3


@pytest.mark.parametrize("width", [500, 1400])
def test_no_page_is_wider_than_the_window(
    visit: Visit, run_khz: RunKhz, run: dict[str, object], samples: pathlib.Path, tmp_path: pathlib.Path, width: int
) -> None:
    short = ["jitter", "--policy", "other", "--ticks", "100"]
    assert run_khz(*short, "--html", "jitter.html", "--save", "a.json").returncode == 0
    assert run_khz(*short, "--save", "b.json").returncode == 0
    assert run_khz("compare", "a.json", "b.json", "--output", "report.html").returncode == 0
    assert run_khz("drill", "fall", "--report", "fall.html").returncode == 0
    assert run_khz("rtt", "send", "127.0.0.1:9", "--ticks", "20", "--priority", "0", "--report", "rtt.html").returncode == 1
    pages = [tmp_path / f"{name}.html" for name in ["run", "jitter", "report", "fall", "rtt"]]
    for path in [*pages, samples / "run.html", samples / "compare.html"]:
        page = visit(path, viewport={"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path.name
        if path.parent == tmp_path:
            assert page.locator("header .verdict").inner_text().endswith("."), path.name


def test_the_first_screen_is_the_sentence_once_five_figures_and_a_plot(visit: Visit, run_khz: RunKhz, tmp_path: pathlib.Path) -> None:
    assert run_khz("run", "--virtual", "--duration", "1s", "--report", "run.html").returncode == 0
    page = visit(tmp_path / "run.html", viewport={"width": 1400, "height": 900})
    assert page.locator("header").inner_text().lower().count("held 1000 hz") == 1
    about = page.locator("header > p").last.inner_text()
    assert re.fullmatch(r"the built-in robot · \d{4}-\d\d-\d\d \d\d:\d\d UTC · \d\.\d s, [\d,]+ ticks · virtual time: .*", about), about
    assert page.locator(".figures > div:visible").count() == 5
    box = page.locator("figure.plot canvas").first.bounding_box()
    assert box is not None and box["y"] + box["height"] / 2 < 900, box


def test_the_robot_is_drawn_at_the_time_that_is_pointed_at(visit: Visit, run: dict[str, object], tmp_path: pathlib.Path) -> None:
    page = visit(tmp_path / "run.html")
    robot = page.locator("figure.robot")
    canvas, time = robot.locator("canvas"), robot.locator(".at")
    assert canvas.evaluate(COLOURED_PIXELS) > 1000
    known = set()
    for share in [0.05, 0.9]:
        knee = plot(page, "rear_left_knee").locator("canvas")
        knee.scroll_into_view_if_needed()
        box = knee.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 46 + (box["width"] - 58) * share, box["y"] + 60)
        known.add((time.inner_text(), canvas.evaluate("(canvas) => canvas.toDataURL()")))
    assert len({text for text, _ in known}) == len({drawn for _, drawn in known}) == 2
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    assert canvas.evaluate("(canvas) => canvas.toDataURL()") != before


def test_without_a_shape_there_is_no_empty_box(visit: Visit, run_khz: RunKhz, tmp_path: pathlib.Path) -> None:
    assert run_khz("new", "--template", "pan_tilt", "pan.toml").returncode == 0
    assert run_khz("run", "pan.toml", "--virtual", "--duration", "1s", "--report", "run.html").returncode == 0
    assert visit(tmp_path / "run.html").locator("figure.robot").count() == 0
