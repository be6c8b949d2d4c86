"""A policy that is learned in `Env` does in a run what it did there, and the shipped one walks."""

import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tomllib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from robots import lenient

import kilohertz

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROBOT = ROOT / "robots/quadruped_policy.toml"
#: Whole minutes of walking, too.
SLOW = bool(os.environ.get("KHZ_SLOW"))
#: Seconds in which the joints move to the default posture before the first decision.
RISE_S = 1.0


def policy_of(robot: pathlib.Path) -> kilohertz.Model:
    return kilohertz.Model(robot.parent / tomllib.loads(robot.read_text())["controller"]["model"])


def varied(folder: pathlib.Path, keys: str) -> pathlib.Path:
    """The robot with other keys of its policy."""
    text = ROBOT.read_text().replace("rate_hz = 50", f"rate_hz = 50\n{keys}")
    text = re.sub(r'model = "(.*)"', f'model = "{ROBOT.parent}/\\1"', text)
    path = folder / "robot.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("keys", ["delay_ticks = 1", "delay_ticks = 7", "delay_ticks = 20"])
def test_it_does_in_a_run_what_it_did_in_its_environment(tmp_path: pathlib.Path, keys: str) -> None:
    path = varied(tmp_path, keys)
    policy = policy_of(ROBOT)
    env = kilohertz.Env(path, policy=True)
    seen, info = env.reset(seed=5)
    assert info["time"] == 0 and env.ticks == 20
    outside = []
    for _ in range(60):
        state = env.state
        outside.append((state.tick, state.position.copy(), state.velocity.copy(), state.attitude.copy()))
        seen, _, terminated, _, _ = env.step(policy(seen))
        assert not terminated
    log = tmp_path / "run.tlog"
    kilohertz.Robot(path).run(duration=RISE_S + 2.5, virtual_time=True, seed=info["seed"], log=str(log))
    with kilohertz.open_log(log) as recorded:
        ticks, imu = recorded["tick"]["number"], recorded["imu"]["attitude"]
        columns = {name: np.array([recorded["servo"][f"{joint}.{name}"] for joint in env.robot.servos]).T for name in ("position", "velocity")}
    for tick, position, velocity, attitude in outside:
        (row,) = np.flatnonzero(ticks == tick)
        for there, here in ((columns["position"], position), (columns["velocity"], velocity), (imu, attitude)):
            # Some are recorded as float32.
            assert np.array_equal(there[row], here.astype(there.dtype))


def test_many_robots_of_a_policy_are_as_one() -> None:
    policy = policy_of(ROBOT)
    envs, env = kilohertz.VecEnv(ROBOT, 2, threads=2, policy=True), kilohertz.Env(ROBOT, policy=True)
    many, one = envs.reset(seed=3)[0], env.reset(seed=4)[0]
    for _ in range(20):
        assert np.array_equal(many[1], one)
        many = envs.step(np.array([policy(seen) for seen in many]))[0]
        one = env.step(policy(one))[0]


def test_the_shipped_policy_walks_half_a_metre_a_second() -> None:
    policy = policy_of(ROBOT)
    env = kilohertz.Env(ROBOT, policy=True, episode=10.0)
    seen, info = env.reset(seed=1)
    start, over = info["position"], False
    while not over:
        seen, _, terminated, over, info = env.step(policy(seen))
        assert not terminated, info["end"]
    assert 0.45 < np.linalg.norm((info["position"] - start)[:2]) / 10.0 < 0.55


def test_the_policy_is_the_files() -> None:
    env = kilohertz.Env(ROBOT, policy=True, rise=0.2)
    assert env.observation_space.shape == (8,) and env.action_space.high.tolist() == [100.0] * 12
    assert env.pose.tolist() == [0.0, 0.75, -1.5] * 4
    for options, why in [({"pose": 0.0}, "has its own"), ({"decision_hz": 25.0}, "has its own"), ({"action_scale": 1.0}, "has its own")]:
        with pytest.raises(ValueError, match=why):
            kilohertz.Env(ROBOT, policy=True, **options)
    with pytest.raises(ValueError, match="policy=True"):
        kilohertz.Env(ROBOT, rise=1.0)
    with pytest.raises(ValueError, match="this robot file has no policy"):
        kilohertz.Env(ROOT / "robots/quadruped.toml", policy=True)
    env.reset(seed=1)
    with pytest.raises(kilohertz.CommandError, match="it says NaN for the joint `front_left_hip`"):
        env.step(np.full(12, np.nan))
    with pytest.raises(ValueError, match="write the model"):
        env.controller(lambda seen: np.zeros(12))


def test_a_model_is_evaluated_as_in_the_loop(tmp_path: pathlib.Path) -> None:
    policy = policy_of(ROBOT)
    assert policy.sizes == (8, 12) and policy(np.zeros(8)).dtype == np.float32
    policy.reset()
    with pytest.raises(ValueError, match="7 numbers; the model takes 8"):
        policy(np.zeros(7))
    with pytest.raises(OSError, match="none.onnx"):
        kilohertz.Model(tmp_path / "none.onnx")
    with pytest.raises(ValueError, match="not an ONNX model"):
        kilohertz.Model(ROBOT)


def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_quadruped", ROOT / "python/examples/train_quadruped.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "train_quadruped", module)
    spec.loader.exec_module(module)
    return module


def test_a_few_iterations_of_training_write_a_policy_that_goes_forwards(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = example(monkeypatch)
    for name, value in {"EPISODE_S": 1.5, "ROBOTS": 1, "TRIES": 10, "BEST": 3}.items():
        monkeypatch.setattr(training, name, value)
    shutil.copy(ROBOT, tmp_path)
    (tmp_path / "models").mkdir()
    robot = tmp_path / ROBOT.name
    training.train(str(robot), 2)
    assert robot.read_text() != ROBOT.read_text()
    text = re.sub(r"start_s = .*", "start_s = 0.5", robot.read_text())
    robot.write_text(text)
    summary = kilohertz.Robot(robot).run(duration=2.0, virtual_time=True, record=False)
    assert summary["trunk"]["position"][0] > 0.05


def pushed(folder: pathlib.Path) -> pathlib.Path:
    """The robot in MuJoCo, where it has not learned; each joint is pushed as hard as the campaign does, one of them every 1.5 s."""
    text = ROBOT.read_text().replace("models/", f"{ROBOT.parent}/models/")
    text = text[: text.index("[body]")] + f'[body]\nkind = "mujoco"\nmodel = "{ROBOT.parent}/models/quadruped.xml"\nkeyframe = "folded"\n'
    push = r"torque = (.*) }\njoint = { "
    text, joints = re.subn(push, lambda limit: f"{limit[0]}push_torque = {0.64 * float(limit[1])}, push_every_s = 18.0, ", text)
    assert joints == 12
    path = folder / "pushed.toml"
    path.write_text(text)
    return path


def walked(robot: pathlib.Path, seconds: float, seed: int = 1, virtual_time: bool = True) -> float:
    """How far it came in so many seconds after it rose, m."""
    summary = kilohertz.Robot(robot).run(duration=RISE_S + seconds, record=False, seed=seed, virtual_time=virtual_time)
    return float(np.linalg.norm(summary["trunk"]["position"][:2]))


@pytest.mark.parametrize("seed", [1, 2, 3] if SLOW else [1])
def test_it_walks_in_mujoco_where_its_joints_are_pushed(tmp_path: pathlib.Path, seed: int) -> None:
    seconds = 60.0 if SLOW else 15.0
    assert 0.45 < walked(pushed(tmp_path), seconds, seed) / seconds < 0.6


@pytest.mark.skipif(not SLOW, reason="walks for a minute: cargo xtask nightly walk")
def test_it_walks_as_far_in_real_time(tmp_path: pathlib.Path) -> None:
    robot = pushed(tmp_path)
    robot.write_text(lenient(robot.read_text()))
    assert walked(robot, 60.0, virtual_time=False) == pytest.approx(walked(robot, 60.0), rel=0.02)


def signal_file(tmp_path: pathlib.Path) -> pathlib.Path:
    """The quadruped with signals in place of a clock."""
    keys = '[[controller.observe]]\nterm = "signal"\nsignals = ["speed", "foot"]\n\n[[controller.observe]]\nterm = "contact"\nsignals = ["foot"]\n'
    text = re.sub(r'\[\[controller.observe\]\]\nterm = "phase"\n.*\n', keys, ROBOT.read_text())
    path = tmp_path / "told.toml"
    path.write_text(text)
    return path


def test_the_signals_of_a_policy_come_from_a_function(tmp_path: pathlib.Path) -> None:
    path = signal_file(tmp_path)
    env = kilohertz.Env(path, policy=True, signals=lambda info: {"speed": info["time"], "foot": 0.75})
    seen, _ = env.reset(seed=1)
    assert seen[-3:].tolist() == [0.0, 0.75, 1.0]
    assert env.step(np.zeros(12))[0][-3:].tolist() == [np.float32(0.02), 0.75, 1.0]
    silent = kilohertz.Env(path, policy=True)
    silent.reset(seed=1)
    assert "its signal `speed` was never set" in silent.step(np.zeros(12))[4]["end"]
    with pytest.raises(ValueError, match="no term of a policy sees a signal `hand`; there are: speed, foot"):
        kilohertz.Env(path, policy=True, signals=lambda info: {"hand": 1.0}).reset(seed=1)


def test_many_robots_receive_what_each_receives_alone(tmp_path: pathlib.Path) -> None:
    path = signal_file(tmp_path)

    def signals(info: "dict[str, Any]") -> "dict[str, Any]":
        return {"speed": info["velocity"][..., 0], "foot": 0.75}

    many = kilohertz.VecEnv(path, 3, policy=True, threads=2, signals=signals)
    alone = [kilohertz.Env(path, policy=True, signals=signals) for _ in range(3)]
    seen, _ = many.reset(seed=5)
    assert (seen == [env.reset(seed=5 + number)[0] for number, env in enumerate(alone)]).all()
    for step in range(10):
        actions = np.outer([0.05, 0.1, 0.15], np.full(12, step)).astype(np.float32)
        seen = many.step(actions)[0]
        expected = [env.step(action)[0] for env, action in zip(alone, actions, strict=True)]
        assert (seen == expected).all() and (seen[:, -2:] == [0.75, 1.0]).all()
    assert len(set(seen[:, -3].tolist())) == 3
    with pytest.raises(ValueError, match=r"the signal `foot` has the shape \(2,\); it is a number for each of 3 robots"):
        kilohertz.VecEnv(path, 3, policy=True, signals=lambda info: {"speed": 0.0, "foot": [1.0, 2.0]}).reset(seed=1)
    with pytest.raises(kilohertz.StartError, match="its signal `foot` was never set"):
        kilohertz.VecEnv(path, 3, policy=True, signals=lambda info: {"speed": 0.0}).reset(seed=1)
