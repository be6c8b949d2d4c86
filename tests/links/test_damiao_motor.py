"""damiao-motor, unmodified, drives emulated Damiao servos over python-can and an emulated slcan adapter."""

import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import can
import pytest
from damiao_motor import DaMiaoController, DaMiaoMotor
from emulated import served

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
damiao = { model = "4310", kp = 20, kd = 1 }

[[servo]]
name = "knee"
id = 2
damiao = { model = "4340", kp = 20, kd = 1 }
"""


@pytest.fixture
def terminal(khz: str, tmp_path: pathlib.Path) -> Iterator[str]:
    with served(khz, tmp_path, ARM) as path:
        # The program sets no bit rate; an adapter keeps the one it has got.
        can.Bus(interface="slcan", channel=path, bitrate=1_000_000, sleep_after_open=0.05).shutdown()
        yield path


@pytest.fixture
def controller(terminal: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaMiaoController]:
    """The program's controller, with a minute for a register: it gives up after a second, which a busy computer may need for a reply."""
    read = DaMiaoMotor.get_register
    monkeypatch.setattr(DaMiaoMotor, "get_register", lambda motor, register, timeout=1.0: read(motor, register, 60 * timeout))
    controller = DaMiaoController(channel=terminal, bustype="slcan")
    yield controller
    controller.shutdown()


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def state(motor: DaMiaoMotor, status: str) -> dict[str, float]:
    """What a motor reports once it has this status."""

    def has_status() -> bool:
        motor.request_motor_feedback()
        return motor.get_states().get("status") == status

    until(has_status, f"{status}, but is {motor.get_states()}")
    return motor.get_states()


# The program reads with two threads at once, and python-can's adapter takes a line byte by byte: on a busy computer each got some.
SCAN = """
import threading
from can.interfaces.slcan import slcanBus
from damiao_motor.cli import unified_main

read, one = slcanBus._read, threading.Lock()

def alone(bus, timeout):
    with one:
        return read(bus, timeout)

slcanBus._read = alone
unified_main()
"""


def test_its_scan_finds_the_motors_and_no_others(terminal: str) -> None:
    command = [sys.executable, "-c", SCAN, "scan", "--channel", terminal, "--bustype", "slcan"]
    command += ["--motor-type", "4310", "--duration", "10"]
    scan = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert scan.returncode == 0, scan.stderr
    assert "Found 2 motor(s)" in scan.stdout, scan.stdout
    assert all(f"Motor ID: 0x0{motor}" in scan.stdout for motor in (1, 2))


def test_it_reads_what_the_motors_are_set_up_for(controller: DaMiaoController) -> None:
    for motor_id, model, velocity, torque in [(1, "4310", 30, 10), (2, "4340", 10, 28)]:
        motor = controller.add_motor(motor_id, 0x10 + motor_id, model)
        motor.ensure_control_mode("MIT")
        registers = {8: motor_id, 7: 0x10 + motor_id, 10: 1, 21: 12.5, 22: velocity, 23: torque, 35: 4, 60: 24}
        assert {register: motor.get_register(register) for register in registers} == registers


def test_it_moves_a_motor(controller: DaMiaoController) -> None:
    motor = controller.add_motor(1, 0x11, "4310")
    motor.ensure_control_mode("MIT")
    assert abs(state(motor, "DISABLED")["pos"]) < 0.001
    motor.enable()
    state(motor, "ENABLED")

    def is_there() -> bool:
        motor.send_cmd_mit(target_position=0.5, stiffness=20.0, damping=1.0)
        return abs(motor.get_states()["pos"] - 0.5) < 0.02 and abs(motor.get_states()["vel"]) < 0.1

    until(is_there, f"{motor.get_states()}")
    now = state(motor, "ENABLED")
    assert now["arbitration_id"] == 0x11 and 20 < now["t_mos"] < 60
    motor.disable()
    state(motor, "DISABLED")
    motor.set_zero_position()
    until(lambda: abs(state(motor, "DISABLED")["pos"]) < 0.02, "its position is not zero")


def test_a_watchdog_it_sets_switches_a_motor_off_until_it_clears_that(controller: DaMiaoController) -> None:
    motor = controller.add_motor(2, 0x12, "4340")
    motor.set_can_timeout(100)
    motor.request_register_reading(9)
    until(lambda: motor.registers.get(9) == 2000, f"{motor.registers}")
    motor.enable()

    def is_lost() -> bool:
        # A question is a message, too: the next one comes after the watchdog's time.
        time.sleep(0.2)
        motor.request_motor_feedback()
        return motor.get_states().get("status") == "LOST_COMM"

    until(is_lost, f"{motor.get_states()}")
    assert motor.get_states()["status_code"] == 0xD
    motor.enable()
    time.sleep(0.05)
    assert motor.get_states()["status"] == "LOST_COMM", "not enabled before it was cleared"
    motor.clear_error()
    state(motor, "DISABLED")
    # Longer than this test waits: how late it looks must not matter.
    motor.set_can_timeout(60_000)
    motor.request_register_reading(9)
    until(lambda: motor.registers.get(9) == 1_200_000, f"{motor.registers}")
    motor.enable()
    state(motor, "ENABLED")
