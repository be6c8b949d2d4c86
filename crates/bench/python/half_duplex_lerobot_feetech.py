"""Goals to all servos and the positions of all, over and over: LeRobot's bus of Feetech motors."""

import sys
from unittest.mock import MagicMock

# Its helpers import these, which would be gigabytes; the bus uses nothing of them.
for heavy in ("torch", "accelerate", "datasets", "datasets.utils", "datasets.utils.logging", "deepdiff", "draccus", "draccus.choice_types"):
    sys.modules[heavy] = MagicMock()

from lerobot.motors import Motor, MotorNormMode  # noqa: E402
from lerobot.motors.feetech import FeetechMotorsBus, feetech  # noqa: E402


def patient(port, packet_length):
    """Gives up after 50 ms otherwise, which a busy machine may need for an answer."""
    port.packet_start_time = port.getCurrentTime()
    port.packet_timeout = 2000.0 + packet_length


feetech.patch_setPacketTimeout = patient
bus = FeetechMotorsBus(path, {f"servo_{servo}": Motor(servo, "sts3215", MotorNormMode.DEGREES) for servo in servos})
bus.connect()
goals = dict.fromkeys(bus.motors, 2048)


def cycle():
    bus.sync_write("Goal_Position", goals, normalize=False)
    return bus.sync_read("Present_Position", normalize=False)


measure(cycle)
