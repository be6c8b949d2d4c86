"""The page of `khz jitter` in a real browser."""

import pathlib
import subprocess
from collections.abc import Callable

from playwright.sync_api import Page


def test_a_matrix_opens_without_complaint_and_draws(
    visit: Callable[..., Page],
    run_khz: Callable[..., "subprocess.CompletedProcess[str]"],
    tmp_path: pathlib.Path,
) -> None:
    words = ["--matrix", "policy=other|fifo;wake=sleep|hybrid", "--ticks", "50", "--rounds", "2"]
    made = run_khz("jitter", *words, "--html", "jitter.html")
    assert made.returncode in (0, 1), made.stderr  # 1: FIFO is not granted to everyone.
    page = visit(tmp_path / "jitter.html")
    assert page.evaluate("window.broken") is None
    assert page.locator("figure.plot canvas").count() >= 5
    for name in ["ordinary, sleep, idle", "fifo 80, hybrid, idle"]:
        assert page.get_by_text(name).count() > 0
