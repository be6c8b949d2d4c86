"""robstride-dynamics, the maker's own program, unmodified, drives emulated RobStride servos over python-can and an emulated slcan adapter."""

import pathlib
import time
from collections.abc import Callable, Iterator

import can
import pytest
from emulated import PatientBus, served
from robstride_dynamics import CommunicationType, Motor, ParameterType, RobstrideBus

# Nothing slows these joints down but what they are commanded. The program takes 50 rad/s for the range of an RS03.
ARM = """
[bus.main]
link = "slcan"
path = "/dev/null"

[servo_defaults]
bus = "main"
family = "robstride"
limits = {{ position = [-1.5, 1.5], velocity = 3 }}
joint = {{ inertia = 0.02, viscous = 0, coulomb = 0 }}

[[servo]]
name = "hip"
id = 1
robstride = {{ model = "RS02", kp = 20, kd = 1 }}

[[servo]]
name = "knee"
id = 3
robstride = {{ model = "RS03", kp = 20, kd = 1, velocity_range = {velocity_range} }}

[emulation]
supply_v = {supply_v}
"""
MOTORS = {"hip": Motor(1, "rs-02"), "knee": Motor(3, "rs-03")}
RESET, RUN = 0, 2


@pytest.fixture
def connect(khz: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RobstrideBus]]:
    """Serves the arm and connects the program with it, which opens SocketCAN interfaces only."""
    opened = []

    monkeypatch.setattr(can.interface, "Bus", lambda interface, channel, bitrate: PatientBus(channel, 200))

    def connected(supply_v: float = 24, velocity_range: float = 50) -> RobstrideBus:
        serving = served(khz, tmp_path, ARM.format(supply_v=supply_v, velocity_range=velocity_range))
        opened.append(serving)
        program = RobstrideBus(serving.__enter__(), MOTORS)
        program.connect()
        return program

    yield connected
    for serving in opened:
        serving.__exit__(None, None, None)


def mode(bus: RobstrideBus, motor: str) -> int:
    """What a servo does after an all-zero command. The program reads this of no reply."""
    bus.write_operation_frame(motor, 0, 0, 0)
    kind, data, host, _ = bus.receive(60)
    assert (kind, data & 0xFF, host) == (CommunicationType.OPERATION_STATUS, MOTORS[motor].id, bus.host_id)
    return data >> 14


def drive(bus: RobstrideBus, motor: str, is_there: Callable[[float, float], bool], **command: float) -> None:
    """Commands until position and velocity are as they should."""
    state, end = (0.0, 0.0, 0.0, 0.0), time.monotonic() + 60
    while not is_there(*state[:2]):
        assert time.monotonic() < end, state
        bus.write_operation_frame(motor, **command)
        state = bus.read_operation_frame(motor)
        time.sleep(0.002)


def test_it_is_answered_by_the_servos_there_are(connect: Callable[..., RobstrideBus]) -> None:
    bus = connect()
    found = {motor: bus.ping_by_id(motor, 0.05) for motor in range(1, 5)}
    assert [motor for motor, reply in found.items() if reply] == [1, 3]
    bus.disconnect()


def test_it_reads_and_writes_parameters(connect: Callable[..., RobstrideBus]) -> None:
    bus = connect()
    bus.write("hip", ParameterType.MODE, 0)
    assert bus.read("hip", ParameterType.MODE) == 0
    for motor, torque in (("hip", 14), ("knee", 60)):
        assert abs(bus.read(motor, ParameterType.VBUS) - 24) < 0.5
        assert bus.read(motor, ParameterType.TORQUE_LIMIT) == torque
        assert bus.read(motor, ParameterType.CAN_TIMEOUT) == 0
        bus.write(motor, ParameterType.CAN_TIMEOUT, 2000)
        assert bus.read(motor, ParameterType.CAN_TIMEOUT) == 2000
    bus.write("knee", ParameterType.TORQUE_LIMIT, 5)
    assert bus.read("knee", ParameterType.TORQUE_LIMIT) == 5
    bus.disconnect()


@pytest.mark.parametrize("motor", MOTORS)
def test_each_number_of_its_commands_means_to_the_servo_what_it_means_to_the_program(
    connect: Callable[..., RobstrideBus], motor: str
) -> None:
    bus = connect()
    bus.enable(motor)
    assert mode(bus, motor) == RUN
    for position in (0.5, -1.0, 9.0):
        drive(bus, motor, lambda p, v, to=position: abs(p - to) < 0.01 and abs(v) < 0.01, position=position, kp=20, kd=1)
        assert abs(bus.read(motor, ParameterType.MECHANICAL_POSITION) - position) < 0.01
    # At rest a torque is balanced by the stiffness.
    drive(bus, motor, lambda p, v: abs(p - 9.1) < 0.01 and abs(v) < 0.01, position=9, kp=20, kd=1, torque=2)
    for velocity in (-2, 2):
        drive(bus, motor, lambda _, v, to=velocity: abs(v - to) < 0.05, position=0, kp=0, kd=1, velocity=velocity)
        assert abs(bus.read(motor, ParameterType.MECHANICAL_VELOCITY) - velocity) < 0.05
    # In motion it is balanced by the damping.
    drive(bus, motor, lambda _, v: abs(v + 1) < 0.05, position=0, kp=0, kd=2, torque=-2)
    bus.disable(motor)
    assert mode(bus, motor) == RESET
    bus.disconnect()


def test_an_rs03_is_slower_than_the_program_says(connect: Callable[..., RobstrideBus]) -> None:
    """Its manual and recordings of real ones have a range of 20 rad/s, the program 50."""
    bus = connect(velocity_range=20)
    bus.enable("knee")
    drive(bus, "knee", lambda _, v: abs(v - 2) < 0.05, position=0, kp=0, kd=2, velocity=2)
    assert abs(bus.read("knee", ParameterType.MECHANICAL_VELOCITY) - 2 * 20 / 50) < 0.05
    bus.disconnect()


def test_a_watchdog_it_sets_switches_a_servo_off(connect: Callable[..., RobstrideBus]) -> None:
    bus = connect()
    bus.write("hip", ParameterType.CAN_TIMEOUT, 2000)
    for motor in MOTORS:
        bus.enable(motor)
    time.sleep(0.5)
    assert [mode(bus, motor) for motor in MOTORS] == [RESET, RUN]
    # Longer than this test waits: how late it looks must not matter.
    bus.write("hip", ParameterType.CAN_TIMEOUT, 1_200_000)
    bus.enable("hip")
    assert mode(bus, "hip") == RUN
    bus.disconnect()


def test_a_fault_is_reported_to_it(connect: Callable[..., RobstrideBus], capsys: pytest.CaptureFixture[str]) -> None:
    bus = connect(supply_v=10)
    bus.write("hip", ParameterType.MODE, 0)
    assert "hip is undervoltage" in capsys.readouterr().out
    bus.enable("hip")
    assert mode(bus, "hip") == RESET
    bus.disconnect()
