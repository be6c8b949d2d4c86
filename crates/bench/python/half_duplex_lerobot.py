"""Goals to all servos and the positions of all, over and over: LeRobot's bus of Dynamixel motors."""

import sys
from unittest.mock import MagicMock

import dynamixel_sdk


class PatientPort(dynamixel_sdk.PortHandler):
    """Gives up after 34 ms otherwise, which a busy machine may need for an answer."""

    def setPacketTimeout(self, packet_length):
        super().setPacketTimeout(packet_length)
        self.packet_timeout += 1000


dynamixel_sdk.PortHandler = PatientPort
# Its helpers import these, which would be gigabytes; the bus uses nothing of them.
for heavy in ("torch", "accelerate", "datasets", "datasets.utils", "datasets.utils.logging", "deepdiff", "draccus", "draccus.choice_types"):
    sys.modules[heavy] = MagicMock()

from lerobot.motors import Motor, MotorNormMode  # noqa: E402
from lerobot.motors.dynamixel import DynamixelMotorsBus  # noqa: E402

bus = DynamixelMotorsBus(path, {f"servo_{servo}": Motor(servo, "xl330-m288", MotorNormMode.DEGREES) for servo in servos})
bus.connect()
bus.set_baudrate(4_000_000)
goals = dict.fromkeys(bus.motors, 2048)


def cycle():
    bus.sync_write("Goal_Position", goals, normalize=False)
    return bus.sync_read("Present_Position", normalize=False)


measure(cycle)
