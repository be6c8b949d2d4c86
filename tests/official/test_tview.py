"""The unmodified tview, without a screen, against an emulated servo."""

import json
import pathlib
import subprocess
import sys

import pytest
from conftest import Served

pytest.importorskip("moteus_gui", reason="moteus-gui is not installed: pip install moteus-gui==1.1.1")


def test_tview_shows_configuration_and_telemetry(one: Served) -> None:
    script = pathlib.Path(__file__).with_name("watch_tview.py")
    done = subprocess.run(
        [sys.executable, str(script), "--fdcanusb", one.path, "-t", "1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "libGL" in done.stderr or "libEGL" in done.stderr or "libxkb" in done.stderr:
        pytest.skip(f"Qt lacks a system library: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert "servopos" in shown["config"]
    assert "servo_stats" in shown["telemetry"]
    assert float(shown["bus_V"]) == 24.0
