"""What the tests of a release share: what `cargo xtask dist` made, and who may change roots."""

import os
import pathlib

import pytest
from release import ROOT, Find


@pytest.fixture(scope="session")
def made() -> Find:
    """The one file of a release whose name is like a pattern."""
    folder = pathlib.Path(os.environ.get("KHZ_DIST", ROOT / "dist")).resolve()

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
