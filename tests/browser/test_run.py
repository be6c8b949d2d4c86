"""The page of a real run in a real browser."""

import json
import pathlib
import subprocess
from collections.abc import Callable

from playwright.sync_api import Page
from robots import lenient

from conftest import ROOT
from test_reports import COLOURED_PIXELS


def test_the_report_of_a_run_shows_its_plots(
    visit: Callable[..., Page],
    run_khz: Callable[..., "subprocess.CompletedProcess[str]"],
    tmp_path: pathlib.Path,
) -> None:
    # As it is, a busy machine may end the run before its start.
    (tmp_path / "robot.toml").write_text(lenient((ROOT / "robots/quadruped.toml").read_text()))
    made = run_khz("run", "robot.toml", "--duration", "2s", "--json")
    assert made.returncode == 0, made.stderr
    run = json.loads(made.stdout)
    page = visit(tmp_path / run["report"])
    assert page.evaluate("window.broken") is None
    canvases = page.locator("figure.plot canvas").all()
    assert len(canvases) >= 3 + 12  # cycle, wake, percentiles, and each joint
    for canvas in canvases[:4]:
        assert canvas.evaluate(COLOURED_PIXELS) > 100, canvas.get_attribute("aria-label")
    texts = ["Where a tick goes", "Late ticks", "p50 against prediction", "front_left_knee", "armed → active"]
    for text in [*texts, run["passport"]["kernel"]]:
        assert page.get_by_text(text).count() > 0, text
