"""2b-t/myactuator_rmd, unmodified, drives emulated RMD motors over SocketCAN: `KHZ_MYACTUATOR_RMD=FOLDER cargo xtask test tests/links/test_myactuator_rmd.py`.

It is C++ that no registry carries: FOLDER is a clone of https://github.com/2b-t/myactuator_rmd (c43980c is the one that was tried).
"""

import json
import os
import pathlib
import subprocess

import pytest
from emulated import served
from socketcan import arm, interface

FOLDER = os.environ.get("KHZ_MYACTUATOR_RMD")

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="no registry carries it: set KHZ_MYACTUATOR_RMD to a clone of 2b-t/myactuator_rmd"),
    pytest.mark.timeout(600),
]

# Each line of what it prints is a value of JSON; what a motor does not answer is an exception, and ends it.
PROGRAM = r"""
#include <chrono>
#include <cmath>
#include <iostream>
#include <thread>

#include <myactuator_rmd/myactuator_rmd.hpp>

using namespace myactuator_rmd;

template <typename Value> void print_value(char const* name, Value const& value) { std::cout << '"' << name << "\": " << value << ",\n"; }

int main() {
  CanDriver driver {"can0"};
  ActuatorInterface motor {driver, 1};
  std::cout << "{";
  print_value("date", motor.getVersionDate());
  print_value("model", '"' + motor.getMotorModel() + '"');
  auto const before = motor.getRuntime().count();
  auto const status = motor.getMotorStatus1();
  print_value("volts", status.voltage);
  print_value("celsius", status.temperature);
  print_value("errors", static_cast<int>(status.error_code));
  print_value("start", motor.getMultiTurnAngle());
  print_value("acceleration", motor.getAcceleration());
  motor.setAcceleration(6000, AccelerationType::POSITION_PLANNING_ACCELERATION);
  motor.setTimeout(std::chrono::seconds(20));
  motor.releaseBrake();
  float angle {};
  for (int tries {}, there {}; tries < 3000 && there < 100; ++tries) {
    angle = motor.sendPositionAbsoluteSetpoint(40.0, 500.0).shaft_angle;
    there = std::abs(angle - 40.0f) < 2.0f ? there + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  print_value("driven", angle);
  print_value("multi turn", motor.getMultiTurnAngle());
  float speed {};
  for (int tries {}; tries < 200 && std::abs(speed - 30.0f) > 3.0f; ++tries) {
    speed = motor.sendVelocitySetpoint(30.0).shaft_speed;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  print_value("speed", speed);
  motor.sendVelocitySetpoint(0.0);
  print_value("current", motor.sendCurrentSetpoint(0.5).current);
  motor.stopMotor();
  motor.shutdownMotor();
  print_value("passed", motor.getRuntime().count() - before);
  std::cout << "\"ended\": true}\n";
}
"""


def built(folder: pathlib.Path) -> pathlib.Path:
    """The program with the library's sources, which need no other."""
    assert FOLDER
    source, program = folder / "judge.cpp", folder / "judge"
    source.write_text(PROGRAM)
    sources = sorted(str(path) for path in pathlib.Path(FOLDER, "src").rglob("*.cpp"))
    words = ["c++", "-std=c++17", "-O1", "-I", f"{FOLDER}/include", str(source), *sources, "-o", str(program), "-pthread"]
    subprocess.run(words, check=True)
    return program


def test_it_asks_moves_and_lets_go_of_a_motor(khz: str, tmp_path: pathlib.Path) -> None:
    robot = arm("rmd", 'model = "X8", protocol = "V4.2", reply_delay_us = 800, kp = 40, kd = 1')
    program = built(tmp_path)
    with served(khz, tmp_path, robot) as terminal, interface(tmp_path, terminal) as environment:
        done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = json.loads(done.stdout)
    assert printed["model"].startswith("X8") and printed["errors"] == 0, printed
    assert printed["volts"] == pytest.approx(24, abs=0.2)
    assert printed["driven"] == pytest.approx(40, abs=2) and printed["multi turn"] == pytest.approx(40, abs=3)
    assert printed["speed"] == pytest.approx(30, abs=3)
    assert printed["passed"] > 0 and printed["ended"]
