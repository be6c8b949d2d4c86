"""Builds the package with maturin, and the command `khz` into its wheel.

maturin packs the module or a program, not both. What lies in `kilohertz._native.data/scripts` it installs beside the interpreter; a
release puts the program there itself, for the machine of the wheel.
"""

import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any

if sys.version_info < (3, 11):
    # pip looks at the version only after it has the metadata.
    sys.exit(f"kilohertz requires Python 3.11 or newer; this is {sys.version.split()[0]}")

import maturin
from maturin import build_editable, build_sdist, get_requires_for_build_editable, get_requires_for_build_sdist
from maturin import get_requires_for_build_wheel, prepare_metadata_for_build_editable, prepare_metadata_for_build_wheel

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

DATA = pathlib.Path("kilohertz._native.data")


def build_wheel(
    wheel_directory: str, config_settings: "dict[str, Any] | None" = None, metadata_directory: "str | None" = None
) -> str:
    """The wheel's name; it is written to `wheel_directory`."""
    if DATA.is_dir():
        return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))
    try:
        scripts = DATA / "scripts"
        scripts.mkdir(parents=True)
        shutil.copy2(_command(), scripts / "khz")
        return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))
    finally:
        # Of this build only: the next one is of other sources.
        shutil.rmtree(DATA)


def _command() -> str:
    """Builds `khz` and returns its path."""
    words = ["cargo", "build", "--release", "--package", "kilohertz-cli", "--bin", "khz", "--all-features"]
    words += ["--message-format", "json-render-diagnostics"]
    messages = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    programs = [json.loads(line).get("executable") for line in messages.splitlines()]
    return str([program for program in programs if program][-1])
