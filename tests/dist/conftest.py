"""What the tests of a release share: what `cargo xtask dist` made, and who may change roots."""

import os
import pathlib
import subprocess
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
Find = Callable[[str], pathlib.Path]


@pytest.fixture(scope="session")
def made() -> Find:
    """The one file of a release whose name is like a pattern."""
    folder = pathlib.Path(os.environ.get("KHZ_DIST", ROOT / "dist"))

    def find(pattern: str) -> pathlib.Path:
        found = sorted(folder.glob(pattern))
        if len(found) != 1:
            pytest.fail(f"{len(found)} files {pattern} in {folder}: run `cargo xtask dist`, or set KHZ_DIST")
        return found[0]

    return find


@pytest.fixture(scope="session")
def root() -> None:
    """Only root may change the root directory and install packages."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


def run(*words: "str | pathlib.Path", **options: object) -> str:
    """Runs a command that must succeed; what it printed on both outputs."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{words} exited with {done.returncode}:\n{done.stdout}"
    return str(done.stdout)


def within(folder: pathlib.Path, at: str = "/") -> Callable[[], None]:
    """For `preexec_fn`: makes a folder the root directory."""

    def change() -> None:
        os.chroot(folder)
        os.chdir(at)

    return change
