"""Targets from Python: a robot that follows them, and what its programs receive. In real time, but nothing here must be fast."""

import json
import pathlib
import signal
import socket
import subprocess
import sys
import time

import kilohertz
import numpy as np
import pytest

from robots import lenient

ARM = """
[loop]
rate_hz = 200
[bus.main]
link = "emulated"
[servo_defaults]
bus = "main"
limits = { position = [-1.5, 1.5], velocity = 3, acceleration = 30 }
[[servo]]
name = "shoulder"
id = 1
[[servo]]
name = "elbow"
id = 2
[controller]
name = "targets"
[targets]
from = "unix:SOCKET"
[supervisor.reactions]
targets = "warn"
position = "warn"
velocity = "warn"
"""


@pytest.fixture
def arm(tmp_path: pathlib.Path) -> kilohertz.Robot:
    return kilohertz.Robot.parse(lenient(ARM.replace("SOCKET", str(tmp_path / "arm.sock"))), "arm")


def until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def let_it_run(live: kilohertz.Live) -> None:
    """A run of a few ticks is no run."""
    tick = live.state().tick
    until(lambda: live.state().tick > tick + 60)


def test_targets_and_chunks_move_the_arm(arm: kilohertz.Robot) -> None:
    with arm.start(record=False, wait=60) as live:
        policy = live.targets("policy", rate_hz=30)
        assert policy.send([0.3, -0.2]) is None
        until(lambda: np.allclose(live.state().position, [0.3, -0.2], atol=0.05))
        assert policy.send({"elbow": 0.1}) is None
        until(lambda: np.allclose(live.state().position, [0.3, 0.1], atol=0.05))
        rows = [[0.3 - 0.01 * number, 0.1] for number in range(30)]
        assert policy.chunk(rows, start=time.monotonic(), dt=1 / 30) is None
        until(lambda: np.allclose(live.state().position, [0.0, 0.1], atol=0.05))
        policy.hold(30)
        status = policy.status
        assert status["programs"]["policy"]["taken"] == 3 and status["programs"]["policy"]["holds"]


def test_what_is_not_taken_says_why(arm: kilohertz.Robot) -> None:
    with arm.start(record=False, wait=60) as live:
        leader, policy = live.targets("leader"), live.targets("policy")
        assert leader.chunk(np.zeros((2, 2)), start=time.monotonic(), dt=4.0) is None
        assert policy.send([0.1, 0.1]) == "held"
        leader.release()
        assert policy.send([0.1, 0.1]) is None
        with pytest.raises(ValueError, match="tail"):
            policy.send({"tail": 0.1})
        with pytest.raises(ValueError, match="2 numbers"):
            policy.send([0.1])
        with pytest.raises(ValueError):
            policy.send([float("nan"), 0.1])
        with pytest.raises(kilohertz.KilohertzError, match="`policy` sends targets"):
            live.send(position=[0.1, 0.1])
        let_it_run(live)


def test_a_command_is_a_chunk_of_two(arm: kilohertz.Robot) -> None:
    with arm.start(record=False, wait=60) as live:
        live.send(position=[0.4, -0.3], over=0.5)
        until(lambda: np.allclose(live.state().position, [0.4, -0.3], atol=0.05))
        live.send(position=[0.0, 0.0])
        until(lambda: np.allclose(live.state().position, [0.0, 0.0], atol=0.05))
        stop = live.command()
        stop.mode = [kilohertz.Mode.STOP, kilohertz.Mode.STOP]
        with pytest.raises(ValueError, match="positions only"):
            live.send(stop)
        with pytest.raises(ValueError, match="NaN"):
            live.targets("odd").send([float("nan"), 0.0])
        assert live.targets("other", take=True).status["programs"]["send"]["taken"] == 2


def test_a_robot_that_is_down_says_why(arm: kilohertz.Robot) -> None:
    live = arm.start(record=False, wait=60)
    policy = live.targets("policy")
    let_it_run(live)
    live.stop()
    with pytest.raises(kilohertz.RobotError, match="down: .*operator"):
        policy.send([0.1, 0.1])
    with pytest.raises(kilohertz.RobotError, match="down: .*operator"):
        live.send(position=[0.1, 0.1])


def test_another_controller_follows_no_targets() -> None:
    robot = kilohertz.Robot.parse(lenient(ARM.replace('name = "targets"', 'name = "hold"').replace('from = "unix:SOCKET"', "")), "arm")
    with robot.start(record=False, age_limit=60, wait=60) as live:
        with pytest.raises(kilohertz.KilohertzError, match="targets"):
            live.targets("policy").send([0.1, 0.1])
        let_it_run(live)


def test_any_program_sends_by_the_socket(arm: kilohertz.Robot, tmp_path: pathlib.Path) -> None:
    with arm.start(record=False, wait=60) as live:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as robot:
            robot.connect(str(tmp_path / "arm.sock"))
            robot.send(json.dumps({"from": "other", "joints": ["elbow"], "position": [0.2]}).encode())
            assert "refused" not in json.loads(robot.recv(65536))
            until(lambda: abs(live.state().position[1] - 0.2) < 0.05)


HAND = """
import json, math, socket, sys, time
robot = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
robot.connect(sys.argv[1])
while True:
    now = time.monotonic()
    target = {"from": "hand", "rate_hz": 30, "joints": ["elbow"], "position": [0.4 * math.sin(2.0 * now)]}
    robot.send(json.dumps(target).encode())
    robot.recv(65536)
    print(flush=True)
    time.sleep(1 / 30)
"""


def test_a_program_that_is_stopped_and_killed_in_mid_motion_causes_no_lunge(arm: kilohertz.Robot, tmp_path: pathlib.Path) -> None:
    """A real process, by its signals; judged by what was commanded, from the log."""
    log = tmp_path / "hand.tlog"
    with arm.start(log=log, wait=60) as live:
        sent = [sys.executable, "-c", HAND, str(tmp_path / "arm.sock")]
        with subprocess.Popen(sent, stdout=subprocess.PIPE) as hand:
            assert hand.stdout is not None
            for pause_s in (0.015, 0.065, 0.3):
                for _ in range(30):
                    hand.stdout.readline()
                hand.send_signal(signal.SIGSTOP)
                time.sleep(pause_s)
                hand.send_signal(signal.SIGCONT)
            for _ in range(30):
                hand.stdout.readline()
            hand.kill()
        until(lambda: live.targets("look").status["stage"] == "silent")
        assert not live.over
    with kilohertz.Log(log) as recorded:
        ticks, elbow = recorded["tick"]["number"], recorded["command"]["elbow.position"].astype(float)
        stages = recorded["stage"]["stage"]
    # On time, held over, waiting, silent.
    assert {1, 2, 3, 4} <= set(stages.tolist())
    follow = np.diff(ticks) == 1
    dt, digit = 1 / 200, 4 * np.finfo(np.float32).eps
    velocity = np.diff(elbow) / dt
    # The hand is at most 0.8 rad/s fast, and what was missed is caught up with half of the greatest velocity; the limiter alone would use all.
    assert np.nanmax(np.abs(velocity[follow])) < 0.8 + 0.5 * 3.0 + 0.05
    both = follow[1:] & follow[:-1]
    acceleration = np.diff(velocity) / dt
    assert np.nanmax(np.abs(acceleration[both])) <= 30 * 1.001 + digit / dt**2
