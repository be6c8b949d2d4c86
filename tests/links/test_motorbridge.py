"""motorbridge, unmodified, drives emulated RobStride and Damiao servos over SocketCAN, its only way to a RobStride."""

import json
import pathlib
import subprocess
import sys

import pytest
from emulated import served
from socketcan import arm, interface

# What the program is made to do, one thing after the other; the result of each is reported at the end. The package waits 50 ms for an
# answer, which a busy computer may exceed: it is asked again for 10 s, as its user would.
PROGRAM = """
import json, sys, time
from motorbridge import Controller, Mode

results = {}

def tried(name, action):
    end = time.monotonic() + 10
    while True:
        try:
            results[name] = action()
            return
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
            if time.monotonic() > end:
                return

def driven(motor, controller):
    "Commands it until it has come to rest where it is to be."
    end = time.monotonic() + 60
    state = None
    motor.enable()
    while time.monotonic() < end:
        motor.send_mit(0.5, 0.0, 20.0, 1.0, 0.0)
        controller.poll_feedback_once()
        time.sleep(0.005)
        state = motor.get_state()
        if state and abs(state.pos - 0.5) < 0.02 and abs(state.vel) < 0.05:
            break
    return [state.pos, state.vel]

def off(motor):
    motor.disable()
    time.sleep(0.05)

with Controller("can0") as controller:
    exec(sys.argv[1])
print(json.dumps(results))
"""

ROBSTRIDE = """
motor = controller.add_robstride_motor(1, 0xfd, "rs-02")
tried("ping", lambda: motor.robstride_ping()[0])
tried("mode", lambda: motor.ensure_mode(Mode.MIT))
tried("write watchdog", lambda: motor.robstride_write_param_u32(0x7028, 100_000))
tried("watchdog", lambda: motor.robstride_get_param_u32(0x7028))
tried("limit", lambda: motor.robstride_get_param_f32(0x700b))
tried("volts", lambda: motor.robstride_get_param_f32(0x701c))
tried("driven", lambda: driven(motor, controller))
tried("position", lambda: motor.robstride_get_param_f32(0x7019))
tried("off", lambda: off(motor))
tried("faults", lambda: motor.robstride_get_fault_report())
"""

DAMIAO = """
motor = controller.add_damiao_motor(1, FEEDBACK, "4310")
tried("mode", lambda: motor.ensure_mode(Mode.MIT))
tried("range", lambda: motor.get_register_f32(21))
tried("id", lambda: motor.get_register_u32(8))
tried("write watchdog", lambda: motor.write_register_u32(9, 100_000))
tried("watchdog", lambda: motor.get_register_u32(9))
tried("driven", lambda: driven(motor, controller))
tried("off", lambda: off(motor))
"""


def results_of(khz: str, folder: pathlib.Path, family: str, program: str) -> "dict[str, object]":
    """What the program reports of a servo of this family."""
    model = {"robstride": 'model = "RS02", ', "damiao": 'model = "4310", '}[family]
    with served(khz, folder, arm(family, f"{model}kp = 20, kd = 1")) as terminal, interface(folder, terminal) as environment:
        command = [sys.executable, "-c", PROGRAM, program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_robstride(khz: str, tmp_path: pathlib.Path) -> None:
    results = results_of(khz, tmp_path, "robstride", ROBSTRIDE)
    assert results.pop("volts") == pytest.approx(24, abs=0.5)
    assert results.pop("driven") == pytest.approx([0.5, 0], abs=0.05), results
    assert results.pop("position") == pytest.approx(0.5, abs=0.05)
    assert results == {
        "ping": 1, "mode": None, "write watchdog": None, "watchdog": 100_000, "limit": 14, "off": None, "faults": [0, 0]
    }  # fmt: skip


def test_damiao(khz: str, tmp_path: pathlib.Path) -> None:
    results = results_of(khz, tmp_path, "damiao", DAMIAO.replace("FEEDBACK", "0x11"))
    assert results.pop("driven") == pytest.approx([0.5, 0], abs=0.05), results
    assert results == {"mode": None, "range": 12.5, "id": 1, "write watchdog": None, "watchdog": 100_000, "off": None}


def test_an_interface_that_is_not_there_is_refused(khz: str, tmp_path: pathlib.Path) -> None:
    """The stand-in stands in for what is there, and for nothing else."""
    program = "from motorbridge import Controller; Controller('can1').add_robstride_motor(1, 0xfd, 'rs-02').robstride_ping()"
    robot = arm("robstride", 'model = "RS02", kp = 20, kd = 1')
    with served(khz, tmp_path, robot) as terminal, interface(tmp_path, terminal) as environment:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "No such device" in done.stderr, done.stderr
