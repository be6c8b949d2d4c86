"""Targets from Python: a robot that follows them, and what its programs are told. In real time, but nothing here must be fast."""

import json
import pathlib
import socket
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
        with pytest.raises(kilohertz.KilohertzError, match="live.targets"):
            live.send(position=[0.1, 0.1])
        let_it_run(live)


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
