"""What every Python test shares: the `khz` command under test, and a browser."""

import gc
import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# A shell that starts the tests in the background has them ignore these, and so would every program they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
for ignored in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(ignored, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


@pytest.fixture(scope="session")
def khz() -> str:
    """Path of the `khz` command: $KHZ, or what `cargo build --release` made."""
    path = pathlib.Path(os.environ.get("KHZ", TARGET / "release/khz"))
    if not path.is_file():
        pytest.fail(f"{path} is not there: run `cargo build --release`, or set KHZ")
    return str(path)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the examples before a test that needs one begins: a cargo that has to wait for another would take from that test's time."""
    needed = any("example" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and not session.config.option.collectonly:
        # As the Rust tests do, so that nothing is compiled twice.
        words = ["cargo", "build", "--quiet", "--workspace", "--all-features", "--examples"]
        subprocess.run(words, cwd=ROOT, check=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, object, object]:
    """Garbage is left alone while a failure is described. For that pytest parses the test's source; before Python 3.11.8 a finaliser, or a
    thread that runs meanwhile, that formats a traceback of its own made that a SystemError, and ended all tests (gh-106905)."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(scope="session")
def example() -> Callable[[str], pathlib.Path]:
    """Path of an example of the workspace."""
    return lambda name: TARGET / "debug/examples" / name


@pytest.fixture
def run_khz(khz: str, tmp_path: pathlib.Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs `khz` to its end in a folder of its own and returns what it printed."""

    def run(*words: str, timeout: float = 60.0) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [khz, *words],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Debian's Chromium, headless, or the one $CHROMIUM names."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.fail("no chromium: install the Debian package, or set CHROMIUM")
    with sync_playwright() as playwright:
        # Chromium's own sandbox cannot run as root, as in a container.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=120_000)
        yield started
        started.close()
