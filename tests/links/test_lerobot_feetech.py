"""LeRobot's bus of Feetech motors, unmodified, drives emulated servos at a pseudo terminal."""

import pathlib
import time
from collections.abc import Iterator

import pytest
from emulated import served
from test_feetech_sdk import ARM
from test_lerobot import Motor, MotorNormMode

from lerobot.motors.feetech import FeetechMotorsBus, OperatingMode, feetech


# Where its first joint is not in the middle.
BENT = ARM.replace("id = 1\n", "id = 1\njoint = { start = 0.5 }\n")


def patient(port: object, packet_length: int) -> None:
    """Gives up after 50 ms otherwise, which a busy machine may need for a reply."""
    port.packet_start_time = port.getCurrentTime()  # type: ignore[attr-defined]
    port.packet_timeout = 20_000.0 + packet_length  # type: ignore[attr-defined]


@pytest.fixture
def bus(khz: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FeetechMotorsBus]:
    monkeypatch.setattr(feetech, "patch_setPacketTimeout", patient)
    with served(khz, tmp_path, BENT, "terminal") as path:
        motors = {
            name: Motor(number, "sts3215", MotorNormMode.DEGREES)
            for number, name in [(1, "pan"), (2, "lift")]
        }
        bus = FeetechMotorsBus(path, motors)
        bus.connect()
        yield bus
        bus.disconnect()


def test_an_arm_is_configured_calibrated_and_moved(bus: FeetechMotorsBus) -> None:
    bus.disable_torque()
    bus.configure_motors()
    for motor in bus.motors:
        bus.write("Operating_Mode", motor, OperatingMode.POSITION.value)
        bus.write("P_Coefficient", motor, 16)
    assert bus.sync_read("Present_Position", normalize=False) == {"pan": 2048 + 326, "lift": 2048}
    # Where it is becomes the middle.
    offsets = bus.set_half_turn_homings()
    assert offsets == {"pan": 2048 + 326 - 2047, "lift": 1}
    assert bus.sync_read("Present_Position", normalize=False) == {"pan": 2047, "lift": 2047}
    bus.enable_torque()
    assert bus.sync_read("Lock", normalize=False) == {"pan": 1, "lift": 1}
    goal, end, position = {"pan": 2300, "lift": 1800}, time.monotonic() + 60, {}
    while time.monotonic() < end:
        bus.sync_write("Goal_Position", goal, normalize=False)
        position = bus.sync_read("Present_Position", normalize=False)
        if all(abs(position[motor] - goal[motor]) < 20 for motor in goal):
            return
    pytest.fail(f"{position}")
