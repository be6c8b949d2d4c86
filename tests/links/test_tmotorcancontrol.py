"""TMotorCANControl, unmodified, drives emulated CubeMars servos over python-can and an emulated slcan adapter.

The program is under GPLv3; it is only run here, and nothing of it is passed on.
"""

import pathlib
import time
import types
from collections.abc import Callable, Iterator

import can
import pytest
from can.interfaces.slcan import slcanBus
from emulated import served
from TMotorCANControl import mit_can
from TMotorCANControl.mit_can import CAN_Manager, TMotorManager_mit_can

ARM = """
[bus.main]
link = "slcan"
path = "/dev/null"

[servo_defaults]
bus = "main"
family = "cubemars"
limits = {{ position = [-1.5, 1.5], velocity = 3 }}
joint = {{ inertia = 0.02, viscous = 0, coulomb = 0 }}

[[servo]]
name = "hip"
id = 1
cubemars = {{ model = "AK80-9", unwatched = true }}

[[servo]]
name = "knee"
id = 2
cubemars = {{ model = "AK80-64", unwatched = true, reply_id = {knee_reply_id} }}

[emulation]
supply_v = {supply_v}
"""
MODELS = {1: "AK80-9", 2: "AK80-64"}
# It waits longer for its first state than it takes for recent.
pytestmark = pytest.mark.filterwarnings("ignore:State update requested")
# It would set up a network interface.
mit_can.os = types.SimpleNamespace(system=lambda _: 0)


@pytest.fixture
def connect(khz: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Serves the arm to the program, which opens one SocketCAN interface only."""
    opened = []

    def connected(supply_v: float = 24, knee_reply_id: int = 0) -> None:
        serving = served(khz, tmp_path, ARM.format(supply_v=supply_v, knee_reply_id=knee_reply_id))
        opened.append(serving)
        path = serving.__enter__()
        adapter = slcanBus(path, bitrate=1_000_000, sleep_after_open=0.05)
        monkeypatch.setattr(can.interface, "Bus", lambda channel, bustype: adapter)

    monkeypatch.setattr(CAN_Manager, "_instance", None)
    # It gives a motor 0.1 s for each reply; here nothing is lost, but a busy computer may take longer.
    get = can.BufferedReader.get_message
    patience = [5.0]

    def patient(reader: can.BufferedReader, timeout: float) -> "can.Message | None":
        if message := get(reader, max(timeout, patience[0])):
            return message
        patience[0] = 0.0
        return None

    monkeypatch.setattr(can.BufferedReader, "get_message", patient)
    yield connected
    if CAN_Manager._instance is not None:
        CAN_Manager._instance.notifier.stop()
        CAN_Manager._instance.bus.shutdown()
    for serving in opened:
        serving.__exit__(None, None, None)


def drive(motor: TMotorManager_mit_can, is_there: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < end, (motor.position, motor.velocity, motor.torque)
        motor.update()
        time.sleep(0.002)


@pytest.mark.parametrize(("motor_id", "knee_reply_id"), [(1, 0), (2, 0), (2, 2)])
def test_each_number_of_its_commands_means_to_the_servo_what_it_means_to_the_program(
    connect: Callable[..., None], motor_id: int, knee_reply_id: int
) -> None:
    connect(knee_reply_id=knee_reply_id)
    with TMotorManager_mit_can(MODELS[motor_id], motor_id) as motor:
        motor.set_impedance_gains_real_unit(K=20, B=1)
        for position in (0.5, -1.0):
            motor.position = position
            drive(motor, lambda to=position: abs(motor.position - to) < 0.02 and abs(motor.velocity) < 0.05)
        assert motor.error == 0 and 20 < motor.temperature < 50
        motor.set_speed_gains(kd=1)
        for velocity in (-2, 2):
            motor.velocity = velocity
            drive(motor, lambda to=velocity: abs(motor.velocity - to) < 0.05)
        # At rest a torque is balanced by the stiffness; the program counts it in its amperes.
        motor.set_impedance_gains_real_unit_full_state_feedback(K=20, B=1)
        motor.position, motor.velocity, motor.current_qaxis = 0, 0, motor.TMotor_current_to_qaxis_current(4)
        drive(motor, lambda: abs(motor.position - 0.2) < 0.02 and abs(motor.velocity) < 0.05)


def test_it_sets_a_zero(connect: Callable[..., None]) -> None:
    connect()
    with TMotorManager_mit_can("AK80-9", 1) as motor:
        motor.set_impedance_gains_real_unit(K=20, B=1)
        motor.position = 0.5
        drive(motor, lambda: abs(motor.position - 0.5) < 0.02 and abs(motor.velocity) < 0.05)
        motor.set_current_gains()
        motor.update()
        motor.set_zero_position()
        # As its documentation asks for; the servo is silent for a second.
        time.sleep(1.5)
        drive(motor, lambda: abs(motor.position) < 0.02)


def test_it_misses_a_servo_that_is_not_there(connect: Callable[..., None]) -> None:
    connect()
    with pytest.raises(RuntimeError, match="Device not connected"), TMotorManager_mit_can("AK80-9", 9):
        pass


def test_a_fault_is_reported_in_its_words(connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    connect(supply_v=10)
    states = []
    monkeypatch.setattr(TMotorManager_mit_can, "_update_state_async", lambda _, state: states.append(state))
    with TMotorManager_mit_can("AK80-9", 1):
        pass
    assert mit_can.MIT_Params["ERROR_CODES"][states[-1].error] == "Under voltage fault"
