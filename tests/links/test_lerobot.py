"""LeRobot's buses of Damiao and RobStride motors, unmodified, drive emulated servos over python-can and an emulated slcan adapter.

With classic CAN: for CAN-FD it does not set an slcan adapter's data rate.
"""

import pathlib
import sys
import time
from unittest.mock import MagicMock

import can
import pytest
from emulated import PatientBus, served

# Its helpers import these, which would be gigabytes; the bus uses nothing of them.
HEAVY = ("torch", "accelerate", "datasets", "datasets.utils", "datasets.utils.logging", "deepdiff")
for heavy in (*HEAVY, "draccus", "draccus.choice_types"):
    sys.modules.setdefault(heavy, MagicMock())

from lerobot.motors import Motor, MotorNormMode  # noqa: E402
from lerobot.motors.damiao import DamiaoMotorsBus  # noqa: E402
from lerobot.motors.robstride import robstride as robstride_module  # noqa: E402
from lerobot.motors.robstride import RobstrideMotorsBus  # noqa: E402

ARM = """
[bus.main]
link = "slcan"
path = "/dev/null"

[servo_defaults]
bus = "main"
family = "damiao"
limits = { position = [-1.5, 1.5], velocity = 3 }

[[servo]]
name = "hip"
id = 1
damiao = { model = "4310" }

[[servo]]
name = "knee"
id = 2
damiao = { model = "4340" }
"""


def motor(motor_id: int, model: str, recv_id: int) -> Motor:
    described = Motor(motor_id, model, MotorNormMode.DEGREES)
    described.recv_id, described.motor_type_str = recv_id, model
    return described


def test_it_moves_the_motors_it_has_enabled_by_connecting(
    khz: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(can.interface, "Bus", lambda channel, bitrate, interface: PatientBus(channel))
    with served(khz, tmp_path, ARM) as path:
        motors = {"hip": motor(1, "dm4310", 0x11), "knee": motor(2, "dm4340", 0x12)}
        bus = DamiaoMotorsBus(path, motors, can_interface="slcan", use_can_fd=False)
        bus.connect()
        goal, positions, end = {"hip": 20.0, "knee": -15.0}, {}, time.monotonic() + 60
        # It waits a millisecond for a state and otherwise returns the previous one.
        while not all(abs(positions.get(name, 1000) - goal[name]) < 1 for name in goal):
            bus.sync_write("Goal_Position", goal)
            positions = bus.sync_read("Present_Position")
            assert time.monotonic() < end, positions
        states = bus.sync_read_all_states()
        assert all(20 < state["temp_mos"] < 60 for state in states.values()), states
        bus.disconnect()


ROBSTRIDES = """
[bus.main]
link = "slcan"
path = "/dev/null"

[servo_defaults]
bus = "main"
family = "robstride_mit"
limits = { position = [-1.5, 1.5], velocity = 3 }

[[servo]]
name = "hip"
id = 1
robstride_mit = { model = "RS00", unwatched = true }

[[servo]]
name = "knee"
id = 2
robstride_mit = { model = "EL05", unwatched = true }
"""


def test_it_moves_robstrides_that_are_set_to_their_mit_protocol(
    khz: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(can.interface, "Bus", lambda channel, bitrate, interface: PatientBus(channel))
    # On a busy computer an answer takes longer than it waits.
    monkeypatch.setattr(robstride_module, "PARAM_TIMEOUT", 10.0)
    with served(khz, tmp_path, ROBSTRIDES) as path:
        # It knows a reply by its first byte.
        motors = {"hip": motor(1, "O0", 1), "knee": motor(2, "ELO5", 2)}
        bus = RobstrideMotorsBus(path, motors, can_interface="slcan", use_can_fd=False)
        bus.connect()
        bus.enable_torque()
        goal, positions, end = {"hip": 20.0, "knee": -15.0}, {}, time.monotonic() + 60
        while not all(abs(positions.get(name, 1000) - goal[name]) < 1 for name in goal):
            bus.sync_write("Goal_Position", goal)
            positions = bus.sync_read("Present_Position")
            assert time.monotonic() < end, positions
        states = bus.sync_read_all_states()
        assert all(20 < state["temp_mos"] < 60 for state in states.values()), states
        bus.set_zero_position()
        bus.disconnect()
