"""LeRobot's bus of Dynamixel motors, unmodified, drives emulated servos at a pseudo terminal, from the handshake to the last torque off."""

import pathlib
import time

import pytest
from emulated import served
from test_dynamixel_sdk import ARM, IDS, PatientPort
from test_lerobot import Motor, MotorNormMode

from lerobot.motors.dynamixel import DynamixelMotorsBus, OperatingMode


def test_a_user_s_program_from_the_handshake_to_the_end(
    khz: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynamixel_sdk.PortHandler", PatientPort)
    names = [f"joint_{servo}" for servo in IDS]
    motors = {name: Motor(servo, "xl330-m288", MotorNormMode.DEGREES) for name, servo in zip(names, IDS, strict=True)}
    with served(khz, tmp_path, ARM, "terminal") as path:
        bus = DynamixelMotorsBus(path, motors)
        bus.connect()
        bus.configure_motors()
        for name in names:
            bus.write("Operating_Mode", name, OperatingMode.EXTENDED_POSITION.value)
        assert {it.range_max for it in bus.read_calibration().values()} == {4095}
        bus.enable_torque()
        with pytest.raises(RuntimeError, match="Failed to write 'Operating_Mode'"):
            bus.write("Operating_Mode", names[0], OperatingMode.POSITION.value)
        goal = {name: 2048 + 100 * servo for name, servo in zip(names, IDS, strict=True)}
        positions, end = dict.fromkeys(names, 0), time.monotonic() + 60
        while any(abs(positions[name] - goal[name]) > 20 for name in names):
            bus.sync_write("Goal_Position", goal, normalize=False)
            positions = bus.sync_read("Present_Position", normalize=False)
            assert time.monotonic() < end, positions
        bus.disconnect()
