"""The project that `khz new --python` makes runs as it is."""

import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.mark.parametrize("template", ["leg3", "openarm_like"])
def test_a_new_project_runs_at_once(
    run_khz: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: pathlib.Path, template: str
) -> None:
    made = run_khz("new", "--template", template, "--python", "mine")
    assert made.returncode == 0, made.stderr
    command = [sys.executable, "controller.py", "1"]
    done = subprocess.run(command, cwd=tmp_path / "mine", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " Hz, " in done.stdout
