"""dynamixel-sdk, unmodified, drives emulated Dynamixel servos at a pseudo terminal."""

import pathlib
import time
from collections.abc import Iterator

import pytest
from dynamixel_sdk import COMM_SUCCESS, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler
from emulated import served

ARM = """
[bus.main]
link = "rs485"
path = "/dev/null"
baud = 1_000_000
protocol = "dynamixel"

[emulation]
supply_v = 5

[servo_defaults]
bus = "main"
family = "dynamixel"
dynamixel = { model = "XL330-M288", torque_constant = 0.35, position_p = 400 }
limits = { position = [-3, 3], velocity = 50 }
joint = { inertia = 0.001 }

[[servo]]
name = "shoulder"
id = 1
joint = { start = 0.5 }

[[servo]]
name = "elbow"
id = 2

[[servo]]
name = "wrist"
id = 3
"""

MODE, TORQUE, GOAL, POSITION, WATCHDOG = 11, 64, 116, 132, 98
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


def test_models_registers_and_refusals(port: PatientPort) -> None:
    sdk = PacketHandler(2.0)
    assert sdk.ping(port, 1) == (1200, COMM_SUCCESS, 0)
    assert sdk.read4ByteTxRx(port, 2, POSITION) == (2048, COMM_SUCCESS, 0)
    assert sdk.readTxRx(port, 1, 700, 4)[1:] == (COMM_SUCCESS, 7)
    assert sdk.write1ByteTxRx(port, 1, MODE, 5) == (COMM_SUCCESS, 0)
    assert sdk.write1ByteTxRx(port, 1, TORQUE, 1) == (COMM_SUCCESS, 0)
    assert sdk.write1ByteTxRx(port, 1, MODE, 0) == (COMM_SUCCESS, 7), "locked while the torque is on"
    # What has to be stuffed, and is not by this client: the servo takes it, and stuffs its answer.
    assert sdk.write1ByteTxRx(port, 2, MODE, 4) == (COMM_SUCCESS, 0)
    assert sdk.write4ByteTxRx(port, 2, 108, 0x00FDFFFF)[1] == 4
    assert sdk.reboot(port, 3) == (COMM_SUCCESS, 0)


@pytest.mark.parametrize("fast", [False, True])
def test_one_question_for_all(port: PatientPort, fast: bool) -> None:
    sdk = PacketHandler(2.0)
    goals, positions = GroupSyncWrite(port, sdk, GOAL, 4), GroupSyncRead(port, sdk, POSITION, 4)
    for servo in IDS:
        assert sdk.write1ByteTxRx(port, servo, TORQUE, 1) == (COMM_SUCCESS, 0)
        assert goals.addParam(servo, list((2048 + 100 * servo).to_bytes(4, "little")))
        assert positions.addParam(servo)
    assert goals.txPacket() == COMM_SUCCESS
    deadline = time.monotonic() + 60
    reached: list[int] = []
    while time.monotonic() < deadline:
        assert (positions.fastSyncRead() if fast else positions.txRxPacket()) == COMM_SUCCESS
        reached = [positions.getData(servo, POSITION, 4) for servo in IDS]
        if all(abs(it - 2048 - 100 * servo) < 20 for servo, it in zip(IDS, reached, strict=True)):
            return
    pytest.fail(f"{reached}")


def test_the_watchdog_acts_and_is_cleared(port: PatientPort) -> None:
    sdk = PacketHandler(2.0)
    assert sdk.write1ByteTxRx(port, 1, TORQUE, 1) == (COMM_SUCCESS, 0)
    assert sdk.write1ByteTxRx(port, 1, WATCHDOG, 1) == (COMM_SUCCESS, 0)
    time.sleep(0.2)
    assert sdk.read1ByteTxRx(port, 1, WATCHDOG) == (255, COMM_SUCCESS, 0)
    assert sdk.write4ByteTxRx(port, 1, GOAL, 2100) == (COMM_SUCCESS, 4)
    assert sdk.write1ByteTxRx(port, 1, WATCHDOG, 0) == (COMM_SUCCESS, 0)
    assert sdk.write4ByteTxRx(port, 1, GOAL, 2100) == (COMM_SUCCESS, 0)
