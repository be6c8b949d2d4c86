"""A Python controller on the states of a recorded run."""

import pathlib

import kilohertz
import pytest

ROBOT = """
[bus.main]
link = "emulated"
[[servo]]
name = "pan"
bus = "main"
id = 1
limits = { position = [-0.5, 0.5], velocity = 2.0 }
"""


class Swing:
    """Commands a position that depends on what it measured, and on its own past."""

    def __init__(self, gain: float) -> None:
        self.gain = gain
        self.target = 0.0

    def start(self, state: kilohertz.State) -> None:
        self.target = float(state.position[0])

    def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
        self.target += self.gain * (0.7 - float(state.position[0]))
        command.position = self.target


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "robot.toml").write_text(ROBOT)
    path = tmp_path / "run.tlog"
    robot = kilohertz.Robot(tmp_path / "robot.toml")
    robot.run(Swing(0.002), duration=1.0, log=path, report=False, virtual_time=True)
    return path


def test_the_same_controller_commands_the_same_again(log: pathlib.Path) -> None:
    outcome = kilohertz.replay(log, Swing(0.002))
    assert outcome["same"] and outcome["ticks"] > 900 and outcome["controller"] == "python", outcome


def test_another_gain_differs_from_its_first_tick_on(log: pathlib.Path) -> None:
    outcome = kilohertz.replay(log, Swing(0.001))
    pan = outcome["joints"][0]
    assert not outcome["same"] and pan["name"] == "pan"
    assert pan["first"]["what"] == "position" and pan["first"]["tick"] < pan["largest"]["tick"], pan


def test_what_a_controller_raises_in_a_replay_is_raised(log: pathlib.Path) -> None:
    def fails(state: kilohertz.State, command: kilohertz.Command) -> None:
        raise ZeroDivisionError("in the replay")

    with pytest.raises(ZeroDivisionError, match="in the replay"):
        kilohertz.replay(log, fails)
    with pytest.raises(TypeError, match="must be a function"):
        kilohertz.replay(log, 3)  # type: ignore[arg-type]


def test_what_is_no_log_of_a_run_is_refused(tmp_path: pathlib.Path, log: pathlib.Path) -> None:
    with pytest.raises(kilohertz.LogError, match="nowhere"):
        kilohertz.replay(tmp_path / "nowhere.tlog", Swing(0.002))
    (tmp_path / "wrong.toml").write_text(ROBOT.replace("emulated", "emulate"))
    with pytest.raises(kilohertz.ConfigError, match="emulate"):
        kilohertz.replay(log, Swing(0.002), robot=tmp_path / "wrong.toml")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_a_tolerance_that_is_none_is_refused(log: pathlib.Path, wrong: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        kilohertz.replay(log, Swing(0.002), tolerance=wrong)


class Slow(Swing):
    """Decides a hundred times a second, and is followed 7 ticks later."""

    decision_hz = 100
    delay_ticks = 7


def test_one_that_decides_less_often_decides_the_same_again(tmp_path: pathlib.Path) -> None:
    (tmp_path / "robot.toml").write_text(ROBOT)
    robot, logs = kilohertz.Robot(tmp_path / "robot.toml"), [tmp_path / "a.tlog", tmp_path / "b.tlog"]
    for log in logs:
        summary = robot.run(Slow(0.02), duration=1.0, log=log, report=False, virtual_time=True)
        assert summary.decisions > 90 and summary.late_decisions == 0, summary.decisions
    outcomes = [kilohertz.replay(log, Slow(0.02)) for log in logs]
    assert outcomes[0] == outcomes[1] and outcomes[0]["same"], outcomes
    assert outcomes[0]["decisions"]["compared"] == summary.decisions, outcomes
    assert not kilohertz.replay(logs[0], Slow(0.01))["same"]
