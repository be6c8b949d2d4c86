"""mini-cheetah-motor-driver-socketcan, unmodified, drives an emulated CubeMars servo over SocketCAN."""

import json
import pathlib
import subprocess
import sys

import pytest
from emulated import served
from socketcan import arm, interface

ARM = arm("cubemars", 'model = "AK80-9", unwatched = true')
# It prints what goes wrong and gives nothing then. Replies that come later than it waits are taken for those to later commands.
PROGRAM = """
import json, time
from motor_driver.canmotorlib import CanMotorController

motor = CanMotorController("can0", 1, "AK80_9_V2", socket_timeout=30)
replies = {"on": motor.enable_motor()}
end = time.monotonic() + 60
state = None
while time.monotonic() < end:
    state = motor.send_rad_command(0.5, 0, 20, 1, 0)
    if abs(state[0] - 0.5) < 0.02 and abs(state[1]) < 0.1:
        break
replies["driven"] = state
replies["off"] = motor.disable_motor()
replies["asked when off"] = motor.send_rad_command(-0.5, 0, 20, 1, 0)
print("replies", json.dumps(replies))
"""


def test_it_is_enabled_driven_and_switched_off(khz: str, tmp_path: pathlib.Path) -> None:
    with served(khz, tmp_path, ARM) as terminal, interface(tmp_path, terminal) as environment:
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    replies = json.loads(done.stdout.partition("replies ")[2] or "{}")
    assert "Error" not in done.stdout and replies, done.stdout + done.stderr
    assert replies["on"] == pytest.approx([0, 0, 0], abs=0.05)
    assert replies["driven"][:2] == pytest.approx([0.5, 0], abs=0.1)
    # Its command of nothing before it is switched off leaves the joint where it is, and off it follows nothing.
    assert replies["off"][0] == pytest.approx(0.5, abs=0.1)
    assert replies["asked when off"][0] == pytest.approx(0.5, abs=0.1)
