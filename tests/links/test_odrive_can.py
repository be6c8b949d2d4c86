"""odrive-can, unmodified, drives emulated ODrives over python-can and an emulated slcan adapter: remote frames and all."""

import asyncio
import pathlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import can
import pytest
from emulated import served
from odrive_can import ODriveCAN
from odrive_can.odrive import HeartbeatError

T = TypeVar("T")
# It shuts its bus down once more when it is forgotten, after the terminal is gone.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LEGS = """
[bus.main]
link = "slcan"
path = "/dev/null"
nominal_bit_rate = 1_000_000

[servo_defaults]
bus = "main"
family = "odrive"
watchdog_s = 20
odrive = { firmware = "0.6", torque_constant = 0.1, current_limit = 20, unwatched = true }
limits = { position = [-3, 3], velocity = 50 }
joint = { inertia = 0.002, viscous = 0.01 }

[[servo]]
name = "hip"
id = 1
joint = { start = 0.5 }

[[servo]]
name = "knee"
id = 2
"""


@pytest.fixture
def terminal(khz: str, tmp_path: pathlib.Path) -> Iterator[str]:
    # The DBC file of the program.
    with served(khz, tmp_path, LEGS) as path:
        yield path


def with_drive(path: str, do: Callable[[ODriveCAN], Awaitable[None]], axis: int = 1) -> None:
    """Does something with a drive that has sent a heartbeat."""

    async def whole() -> None:
        bus = can.Bus(interface="slcan", channel=path, bitrate=1_000_000, sleep_after_open=0.05)
        drive = ODriveCAN(axis_id=axis, can_bus=bus)
        await asyncio.wait_for(drive.start(), 60)
        try:
            await do(drive)
        finally:
            drive.stop()

    asyncio.run(whole())


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """It waits for 0.5 s, or 1 s for a state, which a busy machine may need."""
    for _ in range(20):
        try:
            return await ask()
        except TimeoutError:
            continue
    return await ask()


async def asked(ask: Callable[[], Awaitable[dict[str, float]]], value: str) -> dict[str, float]:
    """A reply that came late it takes for that to its next question."""
    while value not in (reply := await patiently(ask)):
        pass
    return reply


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    end = time.monotonic() + 60
    while not await condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


def test_it_is_received_and_answers_what_it_is_asked(terminal: str) -> None:
    async def do(drive: ODriveCAN) -> None:
        async def is_alive() -> bool:
            # It expects a heartbeat each second, for which a busy machine may stand still.
            try:
                drive.check_alive()
            except HeartbeatError:
                return False
            return True

        await until(is_alive, "no heartbeat comes")
        drive.check_errors()
        assert drive.axis_state == "IDLE"
        estimates = await asked(drive.get_encoder_estimates, "Pos_Estimate")
        assert abs(estimates["Pos_Estimate"] - 0.5 / 6.283185) < 0.001 and abs(estimates["Vel_Estimate"]) < 0.001
        supply = await asked(drive.get_bus_voltage_current, "Bus_Voltage")
        assert abs(supply["Bus_Voltage"] - 24) < 0.1
        currents = await asked(drive.get_iq, "Iq_Measured")
        assert currents["Iq_Measured"] == 0

    with_drive(terminal, do)


def test_it_moves_a_motor_and_lets_it_go(terminal: str) -> None:
    async def do(drive: ODriveCAN) -> None:
        drive.clear_errors()
        drive.set_limits(10.0, 20.0)
        drive.set_pos_gain(10.0)
        drive.set_vel_gains(0.3, 0.0)
        drive.set_controller_mode("POSITION_CONTROL", "PASSTHROUGH")
        drive.set_input_pos(0.0)
        await patiently(lambda: drive.set_axis_state("CLOSED_LOOP_CONTROL"))

        async def is_there() -> bool:
            drive.set_input_pos(0.3)
            estimates = await asked(drive.get_encoder_estimates, "Pos_Estimate")
            return abs(estimates["Pos_Estimate"] - 0.3) < 0.01 and abs(estimates["Vel_Estimate"]) < 0.05

        await until(is_there, "it is not where it was told to go")
        await patiently(lambda: drive.set_axis_state("IDLE"))
        assert drive.axis_state == "IDLE"

    with_drive(terminal, do)


def test_it_moves_none_beside_it(terminal: str) -> None:
    async def do(drive: ODriveCAN) -> None:
        estimates = await asked(drive.get_encoder_estimates, "Pos_Estimate")
        assert abs(estimates["Pos_Estimate"]) < 0.001
        assert drive.axis_state == "IDLE"

    with_drive(terminal, do, axis=2)
