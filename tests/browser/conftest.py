"""A headless Chromium that notes every complaint and every request of the pages it opens."""

import pathlib
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from live import Robot

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# A browser on a busy computer draws late. Nothing here is asserted to be fast.
expect.set_options(timeout=120_000)


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory, example: Callable[[str], pathlib.Path]) -> pathlib.Path:
    """A folder with the sample pages, just made."""
    folder = tmp_path_factory.mktemp("reports")
    subprocess.run([example("sample_report"), folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file; at the end of the test no page may have complained or asked for anything but its own file."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(path: pathlib.Path, **options: object) -> Page:
        page = browser.new_page(**options)
        pages.append(page)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: complaints.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        own = f"request: {path.as_uri()}"
        assert complaints.count(own) == 1
        complaints.remove(own)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture
def robot(khz: str) -> Iterator[Callable[..., Robot]]:
    """Starts robots behind the live view."""
    robots: list[Robot] = []

    def start(joints: list[str], **options: object) -> Robot:
        robots.append(Robot(khz, joints, **options))
        return robots[-1]

    yield start
    for robot in robots:
        robot.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a live view; at the end of the test no page may have complained or asked anything of anybody else."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(link: str, **options: object) -> Page:
        page = browser.new_page(**options)
        pages.append(page)
        # A viewer that is gone refuses connections; and the tests read what is drawn.
        expected = re.compile("ERR_CONNECTION|willReadFrequently")
        page.on("console", lambda message: complaints.append(message.text) if not expected.search(message.text) else None)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: complaints.append(request.url) if request.url != link else None)
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(link)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
