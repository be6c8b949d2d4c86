"""The plug-in's own promises, with robots that run in real time. In the suite what stands for LeRobot is in `stubs`; `cargo xtask nightly
lerobot` runs the same with LeRobot itself."""

import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ARM, Running, until
from lerobot.robots.config import RobotConfig
from lerobot.teleoperators.config import TeleoperatorConfig
from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError
from lerobot_robot_kilohertz import Kilohertz, KilohertzConfig, KilohertzLeader, KilohertzLeaderConfig
from lerobot_robot_kilohertz.connection import RobotDown

from robots import lenient

JOINTS = ["shoulder", "elbow"]


def robot(**options) -> Kilohertz:
    return Kilohertz(KilohertzConfig(**{"id": None, "wait_s": 60} | options))


def leader(**options) -> KilohertzLeader:
    return KilohertzLeader(KilohertzLeaderConfig(id=None, wait_s=60, **options))


def process(child: Kilohertz) -> "subprocess.Popen[bytes]":
    assert child._arm._child is not None
    return child._arm._child._process


def test_features_are_known_before_it_is_connected_and_all_are_float(khz, file):
    arm = robot(file=str(file), khz=khz)
    kinds = ["pos", "vel", "torque", "cmd"]
    expected = [f"{joint}.{kind}" for kind in kinds for joint in JOINTS] + ["age_ms", "tick_mod", "time_s"]
    assert list(arm.observation_features) == expected
    assert all(kind is float for kind in arm.observation_features.values())
    assert arm.action_features == {"shoulder.pos": float, "elbow.pos": float}
    few = robot(file=str(file), khz=khz, velocity=False, torque=False, extras=False)
    assert list(few.observation_features) == ["shoulder.pos", "elbow.pos"]
    assert arm.cameras == {} and arm.is_calibrated and not arm.is_connected
    assert isinstance(RobotConfig, type) and isinstance(TeleoperatorConfig, type)


def test_a_robot_is_started_driven_and_brought_down(khz, file):
    arm = robot(file=str(file), khz=khz)
    arm.connect()
    with pytest.raises(DeviceAlreadyConnectedError):
        arm.connect()
    child = process(arm)
    assert child.poll() is None
    first = arm.get_observation()
    assert list(first) == list(arm.observation_features)
    # What LeRobot passes on replay is no float, but becomes one.
    assert arm.send_action({"shoulder.pos": np.float32(0.25), "elbow.pos": 9.0}) == {"shoulder.pos": 0.25, "elbow.pos": 1.5}
    until(lambda: abs(arm.get_observation()["shoulder.pos"] - 0.25) < 0.02)
    later = arm.get_observation()
    assert later["time_s"] > first["time_s"] >= 0 and later["tick_mod"] > first["tick_mod"]
    assert all(type(value) is float and math.isfinite(value) for value in later.values())
    assert later["age_ms"] > 0
    assert arm.is_connected
    arm.disconnect()
    arm.disconnect()
    assert child.returncode == 0 and not arm.is_connected
    with pytest.raises(DeviceNotConnectedError):
        arm.get_observation()
    # And once more, with another process.
    arm.connect()
    assert process(arm).pid != child.pid
    arm.disconnect()


def test_degrees(run):
    arm = robot(at=run().at, unit="deg")
    arm.connect()
    assert arm.send_action({"elbow.pos": 200.0}) == {"elbow.pos": pytest.approx(math.degrees(1.5))}
    until(lambda: arm.send_action({"elbow.pos": 30.0}) and abs(arm.get_observation()["elbow.pos"] - 30) < 1)
    until(lambda: arm.send_action({"elbow.pos": 30.0}) and abs(arm.get_observation()["elbow.cmd"] - 30) < 0.1)
    arm.disconnect()


def test_a_robot_that_runs_stays_when_lerobot_goes(run):
    running = run()
    arm = robot(at=running.at)
    arm.connect()
    arm.send_action({"elbow.pos": 0.2})
    hand = running.hand()
    assert hand(position=[0.1, 0.1])["refused"] == "held"
    assert hand(status=True)["status"]["programs"][f"lerobot {os.getpid()}"]["taken"] == 1
    assert robot(at=running.at).action_features and hand(position=[0.1, 0.1])["refused"] == "held", "asking lets go of nothing"
    arm.disconnect()
    assert hand(position=[0.1, 0.1]).get("refused") is None
    with pytest.raises(RuntimeError, match="`hand` has the robot"):
        arm.connect()
        arm.send_action({"elbow.pos": 0.2})
    arm.disconnect()
    assert running.process.poll() is None


def test_silence_between_episodes_is_meant_and_ends_with_the_connection(run):
    """The robot file lets programs be silent for a tenth of a second."""
    running = run(lenient(ARM).replace("[targets]", "[targets]\nsilent_s = 0.1"))
    arm, look = robot(at=running.at), running.hand("look")
    arm.connect()
    arm.send_action({"elbow.pos": 0.2})
    until(lambda: look(status=True)["status"]["stage"] == "waiting")
    begin = look(state=True)["tick"]
    until(lambda: look(state=True)["tick"] > begin + 100)
    assert look(status=True)["status"]["stage"] == "waiting", "half a second later it still is"
    assert look(status=True)["status"]["waits"] == 0
    # As a process does that is killed: without a word.
    arm._arm._connection._socket.close()
    until(lambda: look(status=True)["status"]["stage"] == "silent")
    arm.disconnect()


def test_the_robot_s_own_reason_is_raised_when_it_is_down(run):
    running = run()
    arm = robot(at=running.at)
    arm.connect()
    arm.send_action({"elbow.pos": 0.2})
    until(lambda: arm.get_observation()["time_s"] > 0.5)
    output = running.end()
    with pytest.raises(RobotDown, match="the robot is down: stopped by the operator"):
        arm.get_observation()
    assert "stopped by the operator" in output
    assert arm.is_connected, "LeRobot disconnects what is connected only"
    arm.disconnect()


def test_a_fault_is_raised_with_its_joint(khz, file):
    faults = 'faults = { events = [{ at_s = 3, kind = "silence", id = 2 }] }'
    text = file.read_text().replace('link = "emulated"', f'link = "emulated"\n{faults}')
    file.write_text(text.replace("missed_replies = 100_000", "missed_replies = 20"))
    arm = robot(file=str(file), khz=khz)
    arm.connect()
    with pytest.raises(RobotDown, match="the robot is down: elbow: ") as raised:
        while True:
            arm.send_action({"elbow.pos": 0.2})
            arm.get_observation()
            time.sleep(0.02)
    assert "repl" in str(raised.value)
    arm.disconnect()


def test_a_child_that_dies_is_reported(khz, file):
    arm = robot(file=str(file), khz=khz)
    arm.connect()
    process(arm).kill()
    process(arm).wait()
    with pytest.raises(RobotDown, match="ended by SIGKILL"):
        arm.get_observation()
    with pytest.raises(RobotDown):
        arm.send_action({"elbow.pos": 0.2})
    arm.disconnect()


def test_the_robot_comes_down_when_lerobot_is_killed(khz, file, tmp_path):
    program = """
import sys, time
from lerobot_robot_kilohertz import Kilohertz, KilohertzConfig
arm = Kilohertz(KilohertzConfig(file=sys.argv[1], khz=sys.argv[2], wait_s=60))
arm.connect()
print(arm._arm._child._process.pid, flush=True)
time.sleep(600)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", program, str(file), khz], stdout=subprocess.PIPE, text=True, env=environment) as lerobot:
        pid = int(lerobot.stdout.readline())
        lerobot.kill()
    until(lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_clear_errors_before_anything_moves(khz, file, tmp_path, run, run_khz):
    for options, why in [
        ({}, "say which robot"),
        ({"file": str(file), "at": "unix:x"}, "say which robot"),
        ({"at": "unix:x", "unit": "turns"}, "`rad` or `deg`"),
        ({"file": str(tmp_path / "none.toml"), "khz": khz}, "none.toml"),
        ({"file": str(file), "khz": "/nope"}, "/nope cannot be run.*No such file.*installed beside LeRobot"),
        ({"file": str(file), "khz": str(tmp_path)}, "cannot be run"),
        ({"at": "unix:x", "priority": 99}, "`priority` must be 0 to 9, not 99"),
        ({"at": "unix:x", "hold_s": math.nan}, "`hold_s` must be 0 to .*, not nan"),
        ({"at": "unix:x", "rate_hz": 1e9}, "`rate_hz` must be 0.1 to 1000"),
        ({"at": "unix:x", "id": "x" * 200}, "`id` is too long"),
    ]:
        with pytest.raises(ValueError, match=why):
            robot(**options)
    with pytest.raises(ValueError, match="write `unix:PATH`"):
        robot(at="/tmp/x").connect()
    with pytest.raises(RobotDown, match="there is no robot at .*khz run"):
        _ = robot(at=f"unix:{tmp_path / 'none.sock'}").action_features
    other = tmp_path / "other.toml"
    other.write_text(lenient(ARM).replace('name = "targets"', 'name = "hold"').replace('from = "unix:SOCKET"', ""))
    with pytest.raises(ValueError, match="its controller is `hold`"):
        robot(file=str(other), khz=khz)
    done = run_khz("run", "other.toml", "--targets", "unix:x", "--duration", "1s")
    assert done.returncode != 0 and "--targets is for robots that follow targets" in done.stderr
    # Left by one that was killed.
    running = run()
    running.process.kill()
    running.process.wait()
    with pytest.raises(RobotDown, match="nobody listens"):
        robot(at=running.at).connect()


def test_two_of_one_id_are_not_taken_for_one(run):
    at = run().at
    first, second = robot(at=at, id="a"), robot(at=at, id="a")
    first.connect()
    first.send_action({"elbow.pos": 0.2})
    second.connect()
    with pytest.raises(RuntimeError, match="another program is called `lerobot a`.*an `id` of its own"):
        second.send_action({"elbow.pos": 0.3})
    second.disconnect()
    with pytest.raises(RuntimeError, match="`lerobot a` has the robot"):
        third = robot(at=at)
        third.connect()
        third.send_action({"elbow.pos": 0.3})
    third.disconnect()
    first.send_action({"elbow.pos": 0.3})
    first.disconnect()


def test_what_is_no_action_is_refused(run):
    arm = robot(at=run().at)
    arm.connect()
    for action, why in [({}, "at least one of shoulder.pos, elbow.pos"), ({"tail.pos": 0.1}, "tail.pos"), ({"elbow.vel": 0.1}, "elbow.vel"), ({"elbow.pos": math.nan}, "elbow")]:
        with pytest.raises(ValueError, match=why):
            arm.send_action(action)
    arm.disconnect()


def test_one_that_is_not_armed_is_not_connected(khz, file):
    file.write_text(file.read_text().replace("[supervisor]", '[supervisor]\narming = "operator"'))
    arm = Kilohertz(KilohertzConfig(file=str(file), khz=khz, wait_s=3))
    with pytest.raises(RobotDown, match="not under control after 3 s: it is (idle|init)"):
        arm.connect()
    assert not arm.is_connected and arm._arm._child is None


def test_a_leader_is_limp_and_has_feedback_and_holds_itself_afterwards(run):
    """Weight lets go of a limp elbow, and feedback is what carries it."""
    running = run(lenient(ARM).replace("viscous = 0.1", "viscous = 1.0, gravity = 1, gravity_at = 1"))
    hand = running.hand()
    begin = leader(at=running.at)
    begin.connect()
    assert begin.action_features == {"shoulder.pos": float, "elbow.pos": float}
    start = begin.get_action()
    until(lambda: abs(begin.get_action()["elbow.pos"] - start["elbow.pos"]) > 0.3)
    assert begin.feedback_features == {"shoulder.torque": float, "elbow.torque": float}
    begin.send_feedback({"elbow.torque": 1.5})
    torque = lambda: hand(state=True)["state"]["torque"][1]  # noqa: E731
    until(lambda: begin.get_action() and abs(torque() - 1.5) < 0.2)
    with pytest.raises(ValueError, match="tail"):
        begin.send_feedback({"tail.torque": 1.0})
    begin.disconnect()
    begin.disconnect()
    until(lambda: abs(hand(state=True)["state"]["velocity"][1]) < 0.01)
    stands = hand(state=True)["state"]
    assert abs(stands["position"][1] - stands["command"][1]) < 0.2, "by its gains"


def test_one_that_another_program_moves_is_only_looked_at(run):
    running: Running = run()
    hand, lead = running.hand(), leader(at=running.at, limp=False)
    lead.connect()
    hand(joints=["elbow"], position=[0.3], hold_s=60)
    until(lambda: abs(lead.get_action()["elbow.pos"] - 0.3) < 0.02)
    assert lead.feedback_features == {}
    assert [name for name, of in hand(status=True)["status"]["programs"].items() if of["taken"]] == ["hand"]
    lead.disconnect()


def test_a_robot_that_is_stopped_by_a_signal_is_no_observation(run, patience):
    running = run()
    arm = robot(at=running.at)
    arm.connect()
    running.process.send_signal(signal.SIGSTOP)
    # All of its threads stand still.
    os.waitid(os.P_PID, running.process.pid, os.WSTOPPED)
    patience(2.0)
    arm._arm._connection._socket.settimeout(2.0)
    with pytest.raises(RobotDown, match="does not answer"):
        arm.get_observation()
    arm.disconnect()
    running.process.send_signal(signal.SIGCONT)
