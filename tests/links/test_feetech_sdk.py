"""feetech-servo-sdk, unmodified, drives emulated Feetech servos at a pseudo terminal."""

import pathlib
import time
from collections.abc import Iterator

import pytest
from emulated import served
from scservo_sdk import COMM_SUCCESS, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler

ARM = """
[bus.main]
link = "rs485"
path = "/dev/null"
baud = 1_000_000
protocol = "feetech"

[emulation]
supply_v = 7.4

[servo_defaults]
bus = "main"
family = "feetech"
feetech = { model = "STS3215", unwatched = true }
limits = { position = [-3, 3], velocity = 50 }
joint = { inertia = 0.003, armature = 0.0284 }

[[servo]]
name = "shoulder"
id = 1

[[servo]]
name = "elbow"
id = 2

[[servo]]
name = "wrist"
id = 3
"""

ID, GAIN, OFFSET, MODE, TORQUE, GOAL, SPEED, LOCK = 5, 21, 31, 33, 40, 42, 46, 55
POSITION, PRESENT_SPEED, VOLTAGE = 56, 58, 62
IDS = [1, 2, 3]


class PatientPort(PortHandler):
    """Gives up after 34 ms, which a busy machine may need for a reply."""

    def setPacketTimeout(self, packet_length: int) -> None:  # noqa: N802
        super().setPacketTimeout(packet_length)
        self.packet_timeout += 20_000


@pytest.fixture
def port(khz: str, tmp_path: pathlib.Path) -> Iterator[PatientPort]:
    with served(khz, tmp_path, ARM, "terminal") as path:
        port = PatientPort(path)
        assert port.openPort() and port.setBaudRate(1_000_000)
        yield port
        port.closePort()


def test_models_registers_and_a_new_id(port: PatientPort) -> None:
    sdk = PacketHandler(0)
    assert sdk.ping(port, 1) == (777, COMM_SUCCESS, 0)
    assert sdk.read2ByteTxRx(port, 2, POSITION) == (2048, COMM_SUCCESS, 0)
    assert sdk.read1ByteTxRx(port, 2, VOLTAGE) == (74, COMM_SUCCESS, 0)
    # Nothing reports that it was refused.
    assert sdk.write1ByteTxRx(port, 1, MODE, 9) == (COMM_SUCCESS, 0)
    assert sdk.read1ByteTxRx(port, 1, MODE) == (0, COMM_SUCCESS, 0)
    for address, value in [(LOCK, 0), (GAIN, 20), (LOCK, 1)]:
        assert sdk.write1ByteTxRx(port, 1, address, value) == (COMM_SUCCESS, 0)
    assert sdk.readTxRx(port, 1, GAIN, 3) == ([20, 32, 0], COMM_SUCCESS, 0)
    assert sdk.write2ByteTxRx(port, 3, OFFSET, 0x864) == (COMM_SUCCESS, 0)
    assert sdk.read2ByteTxRx(port, 3, POSITION) == (2148, COMM_SUCCESS, 0)
    # The answer has the old id, and what comes next goes to the new one.
    assert sdk.write1ByteTxRx(port, 3, ID, 7) == (COMM_SUCCESS, 0)
    assert sdk.ping(port, 7) == (777, COMM_SUCCESS, 0)
    assert sdk.regWriteTxRx(port, 1, GOAL, 2, [0, 9]) == (COMM_SUCCESS, 0)
    assert sdk.action(port, 254) == COMM_SUCCESS
    assert sdk.read2ByteTxRx(port, 1, GOAL) == (0x900, COMM_SUCCESS, 0)


def test_one_question_for_all(port: PatientPort) -> None:
    sdk = PacketHandler(0)
    goals, positions = GroupSyncWrite(port, sdk, GOAL, 2), GroupSyncRead(port, sdk, POSITION, 2)
    for servo in IDS:
        assert sdk.write1ByteTxRx(port, servo, TORQUE, 1) == (COMM_SUCCESS, 0)
        assert goals.addParam(servo, list((2048 + 100 * servo).to_bytes(2, "little")))
        assert positions.addParam(servo)
    assert goals.txPacket() == COMM_SUCCESS
    deadline = time.monotonic() + 60
    reached: list[int] = []
    while time.monotonic() < deadline:
        assert positions.txRxPacket() == COMM_SUCCESS
        reached = [positions.getData(servo, POSITION, 2) for servo in IDS]
        if all(abs(it - 2048 - 100 * servo) < 20 for servo, it in zip(IDS, reached, strict=True)):
            return
    pytest.fail(f"{reached}")


def test_a_wheel_turns_backwards(port: PatientPort) -> None:
    sdk = PacketHandler(0)
    assert sdk.write1ByteTxRx(port, 1, MODE, 1) == (COMM_SUCCESS, 0)
    assert sdk.write2ByteTxRx(port, 1, SPEED, 0x812C) == (COMM_SUCCESS, 0)
    assert sdk.write1ByteTxRx(port, 1, TORQUE, 1) == (COMM_SUCCESS, 0)
    deadline = time.monotonic() + 60
    speed = 0
    while time.monotonic() < deadline:
        speed = sdk.read2ByteTxRx(port, 1, PRESENT_SPEED)[0]
        if speed & 0x8000 and 250 < speed & 0x7FFF < 350:
            return
    pytest.fail(f"{speed:#x}")
