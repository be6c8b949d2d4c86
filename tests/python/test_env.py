"""The robot as a Gymnasium environment: the same machine as in a run, decision by decision."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import time
import warnings
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import kilohertz

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUJOCO = ROOT / "robots/quadruped_mujoco.toml"
OWN = ROOT / "robots/quadruped.toml"
STAND = [0.0, 0.75, -1.5] * 4
RANDOMISE = {
    "turnaround": (50, 100),
    "loss": (0, 0.001),
    "latency": (0, 20),
    "payload": (0, 2),
    "friction": (0.5, 1.0),
    "motor_constant": (0.9, 1.1),
}


def standing(**more: Any) -> kilohertz.Env:
    return kilohertz.Env(MUJOCO, keyframe="stand", **more)


def episode(env: kilohertz.Env, seed: int, decisions: int = 25) -> list[Any]:
    """Everything that came back."""
    random = np.random.default_rng(seed)
    seen: list[Any] = [env.reset(seed=seed)]
    for _ in range(decisions):
        seen.append(env.step(0.2 * random.uniform(-1, 1, 12)))
    return seen


def same(one: Any, other: Any) -> bool:
    """To the last bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other)


@pytest.mark.parametrize("robot", [MUJOCO, OWN])
def test_gymnasium_finds_nothing_wrong(robot: pathlib.Path) -> None:
    env = kilohertz.Env(robot, randomise=RANDOMISE, episode=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What a joint measures has no bounds that are known.
        warnings.filterwarnings("ignore", ".*Box observation space .*infinity.*")
        check_env(env, skip_render_check=True)


def test_a_seed_gives_the_same_episode_to_the_last_bit() -> None:
    env = standing(randomise=RANDOMISE)
    first, again = episode(env, 7), episode(standing(randomise=RANDOMISE), 7)
    assert same(first, again) and same(first, episode(env, 7))
    assert not same(first, episode(env, 8))


def test_what_an_episode_returned_is_not_rewritten_by_the_next() -> None:
    env = standing()
    seen = episode(env, 1, 3)
    kept = json.dumps(seen, default=lambda array: array.tolist())
    episode(env, 2, 3)
    assert json.dumps(seen, default=lambda array: array.tolist()) == kept


def test_reset_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    env = standing(randomise=RANDOMISE)
    took = []
    for seed in range(20):
        began = time.perf_counter()
        env.reset(seed=seed)
        took.append(time.perf_counter() - began)
    with capsys.disabled():
        print(f"\n[reset: median {1e3 * sorted(took)[10]:.1f} ms, longest {1e3 * max(took):.1f} ms]")


def test_it_is_vectorised_by_processes() -> None:
    with_processes = gymnasium.vector.AsyncVectorEnv([standing] * 2)
    try:
        seen, _ = with_processes.reset(seed=[3, 4])
        alone = standing()
        assert np.array_equal(seen[0], alone.reset(seed=3)[0])
        for _ in range(10):
            action = with_processes.action_space.sample() * np.float32(0.1)
            seen, reward, terminated, _, info = with_processes.step(action)
            own = alone.step(action[0])
            assert np.array_equal(seen[0], own[0]) and reward[0] == own[1] and not terminated.any()
            assert np.array_equal(info["position"][0], own[4]["position"])
    finally:
        with_processes.close()


@pytest.mark.parametrize("delay", [0, 1, 7, 20])
def test_a_policy_in_the_loop_sees_and_does_the_same(delay: int) -> None:
    def policy(log: list[np.ndarray]) -> Any:
        def decide(seen: np.ndarray) -> np.ndarray:
            log.append(seen.copy())
            return 0.3 * np.tanh(3 * seen[:12] + 0.1)

        return decide

    text = MUJOCO.read_text().replace("models/", f"{MUJOCO.parent}/models/").replace('"folded"', '"stand"')
    # Chance is a matter of the seed, and an environment draws its own.
    text = text.replace("[emulation]", "[emulation]\nimu_rate_noise = 0\nimu_attitude_noise = 0\nimu_acceleration_noise = 0")
    robot = kilohertz.Robot.parse(text, "stand.toml")
    env = kilohertz.Env(robot, pose=STAND, delay_ticks=delay)
    outside: list[np.ndarray] = []
    decide = policy(outside)
    seen, _ = env.reset(seed=1)
    for _ in range(40):
        seen, _, terminated, _, _ = env.step(decide(seen))
        assert not terminated
    within: list[np.ndarray] = []
    robot.run(env.controller(policy(within), rise=0.0), duration=1.0, virtual_time=True, record=False)
    assert len(within) >= 40 and same(outside, within[:40])
    with pytest.raises(ValueError, match="delay_ticks is 21; it is from 0 to the 20 ticks to the next decision"):
        kilohertz.Env(robot, delay_ticks=21)


def test_a_policy_decides_as_often_in_a_loop_of_another_rate() -> None:
    env = kilohertz.Env(OWN, pose=STAND, decision_hz=50)
    decisions: list[np.ndarray] = []

    def policy(seen: np.ndarray) -> np.ndarray:
        decisions.append(seen)
        return np.zeros(12)

    slower = kilohertz.Robot.parse(OWN.read_text().replace("rate_hz = 1000", "rate_hz = 500"), "slower.toml")
    assert slower.rate_hz == 500
    slower.run(env.controller(policy, rise=0.0), duration=1.0, virtual_time=True, record=False)
    assert 45 <= len(decisions) <= 51
    uneven = kilohertz.Robot.parse(OWN.read_text().replace("rate_hz = 1000", "rate_hz = 333"), "uneven.toml")
    with pytest.raises(ValueError, match="whole number of ticks"):
        uneven.run(env.controller(policy), duration=1.0, virtual_time=True, record=False)
    with pytest.raises(ValueError, match="rise"):
        env.controller(policy, rise=np.nan)


def test_a_policy_does_not_move_the_joints_of_another_robot() -> None:
    head, *servos = OWN.read_text().split("[[servo]]")
    turned = kilohertz.Robot.parse("[[servo]]".join([head, *[text + "\n" for text in reversed(servos)]]), "turned.toml")
    env = kilohertz.Env(OWN, pose=STAND)
    assert turned.servos == env.robot.servos[::-1]
    for other in (turned, kilohertz.Robot.emulated(2)):
        with pytest.raises(ValueError, match=f"this robot has {other.servos[0]}"):
            other.run(env.controller(lambda seen: np.zeros(12)), duration=0.5, virtual_time=True, record=False)


def test_a_fault_before_the_first_decision_acts() -> None:
    env = standing()
    env.reset(seed=1)
    env.inject("silent", env.robot.servos[0])
    assert env.step(np.zeros(12))[4]["missed"] >= 19
    # A fault is cleared by the stop that is on its way, as that of a servo is; later it stays.
    env.inject("fault", env.robot.servos[1], 33)
    assert env.step(np.zeros(12))[4]["end"]


def test_over_an_ideal_wire_it_moves_as_mujoco_alone() -> None:
    """Without gains nothing but gravity moves the joints: the machine around them must not either."""
    text = MUJOCO.read_text().replace("models/", f"{MUJOCO.parent}/models/")
    text = text.replace('"can_fd"', '"instant"').replace("kp = 31.8, kd = 1.43", "kp = 0.0, kd = 0.0")
    env = kilohertz.Env(kilohertz.Robot.parse(text, "limp.toml"), keyframe="stand", min_height=0.0)
    env.reset(seed=1)
    model = mujoco.MjModel.from_xml_path(str(ROOT / "robots/models/quadruped.xml"))
    data = mujoco.MjData(model)
    worst = 0.0
    data.qpos[:], data.qvel[:] = env.qpos, env.qvel
    for _ in range(10):
        env.step(np.zeros(12))
        mujoco.mj_step(model, data, round(0.02 / model.opt.timestep))
        worst = max(worst, float(np.abs(data.qpos - env.qpos).max()))
    assert data.qpos[2] < 0.2 and worst < 1e-4, worst


def test_the_bus_the_supervisor_and_the_faults_are_in_it() -> None:
    env = standing(randomise={"loss": 0.02, "latency": 50.0})
    _, info = env.reset(seed=1)
    assert info["randomised"] == {"loss": 0.02, "latency": 50.0}
    missed = 0
    for _ in range(5):
        *_, info = env.step(np.zeros(12))
        missed += info["missed"]
    assert missed > 0
    env = standing()
    env.reset(seed=1)
    env.step(np.zeros(12))
    env.inject("fault", "rear_left_knee", 33)
    *_, terminated, _, info = env.step(np.zeros(12))
    assert terminated and info["faults"] == {"rear_left_knee": 33} and "servo fault 33" in info["end"]


def test_an_episode_ends_where_the_robot_falls_or_its_time_is_over() -> None:
    env = standing(min_height=0.2)
    env.reset(seed=1)
    ends = [env.step(np.tile([0.0, 1.0, -1.0], 4))[4]["end"] for _ in range(60)]
    assert ends[0] is None and ends[-1] == "lower than 0.2 m"
    env = standing(episode=0.1)
    env.reset(seed=1)
    assert [env.step(np.zeros(12))[3] for _ in range(5)] == [False] * 4 + [True]


def test_each_draw_changes_the_robot() -> None:
    def seen(**draw: float) -> np.ndarray:
        env = standing()
        env.reset(seed=1, options=draw)
        random = np.random.default_rng(1)
        for _ in range(10):
            observation = env.step(0.2 * random.uniform(-1, 1, 12))[0]
        return np.concatenate((observation, env.state.age))

    draws = {"turnaround": 200.0, "loss": 0.01, "latency": 60.0, "payload": 2.0, "friction": 0.1, "motor_constant": 0.9}
    for name, value in draws.items():
        assert not np.array_equal(seen(), seen(**{name: value})), name


def arm(tmp_path: pathlib.Path, uncertainty: str) -> pathlib.Path:
    """Two emulated servos, of whose second joint so much is uncertain."""
    path = tmp_path / "arm.toml"
    path.write_text(
        '[loop]\nrate_hz = 500\nbus_deadline_us = 1900\n'
        '[bus.main]\nlink = "emulated"\n[servo_defaults]\nbus = "main"\nlimits = { position = [-1.5, 1.5], velocity = 6 }\n'
        'joint = { inertia = 0.01, coulomb = 0.05 }\n'
        f'[[servo]]\nname = "pan"\nid = 1\n[[servo]]\nname = "tilt"\nid = 2\n{uncertainty}\n'
    )
    return path


def test_joints_are_drawn_from_the_uncertainty_of_the_robot_file(tmp_path: pathlib.Path) -> None:
    path = arm(tmp_path, "uncertainty = { inertia = 0.001, coulomb = 0.02 }")
    env = kilohertz.Env(path, randomise={"joints": 1.0})
    drawn = [env.reset(seed=seed)[1]["randomised"] for seed in range(200)]
    assert all(values.keys() == {"tilt.inertia", "tilt.coulomb"} for values in drawn)
    inertia, coulomb = (np.array([values[f"tilt.{key}"] for values in drawn]) for key in ("inertia", "coulomb"))
    # Of 200 draws the mean is known to 7 % of the deviation, and the deviation to 5 %.
    for found, value, deviation in ((inertia, 0.01, 0.001), (coulomb, 0.05, 0.02)):
        assert abs(found.mean() - value) < 0.25 * deviation and abs(found.std() / deviation - 1) < 0.2
    assert inertia.min() > 0 and coulomb.min() >= 0
    assert env.reset(seed=7)[1]["randomised"] == drawn[7]
    envs = kilohertz.VecEnv(path, 3, randomise={"joints": 1.0})
    _, info = envs.reset(seed=7)
    assert [info["randomised"]["tilt.coulomb"][number] for number in range(3)] == [drawn[7 + number]["tilt.coulomb"] for number in range(3)]


def test_what_was_drawn_is_what_moves(tmp_path: pathlib.Path) -> None:
    env = kilohertz.Env(arm(tmp_path, "uncertainty = { coulomb = 0.02 }"), randomise={"joints": 1.0})

    def end(**options: float) -> np.ndarray:
        env.reset(seed=1, options=options)
        for _ in range(20):
            env.step(np.array([0.5, 0.5], dtype=np.float32))
        return np.asarray(env.state.position)

    drawn, exact, set_by_hand = end(), end(joints=0), end(**{"tilt.coulomb": 0.2})
    assert drawn[0] == exact[0] == set_by_hand[0]
    assert len({drawn[1], exact[1], set_by_hand[1]}) == 3
    # Without an uncertainty all are as the file has them.
    sure = kilohertz.Env(arm(tmp_path, ""), randomise={"joints": 1.0})
    assert sure.reset(seed=1)[1]["randomised"] == {}
    for wrong, expected in (({"joints": -1.0}, "joints is -1"), ({"tilt.mass": 1.0}, "`coulomb`"), ({"tilt.inertia": 0.0}, "out of range")):
        with pytest.raises((ValueError, kilohertz.KilohertzError), match=expected):
            kilohertz.Env(arm(tmp_path, ""), randomise=wrong)


def test_what_does_not_fit_is_refused_with_what_would() -> None:
    def refused(**words: Any) -> str:
        with pytest.raises((ValueError, kilohertz.KilohertzError)) as caught:
            kilohertz.Env(words.pop("robot", MUJOCO), **words)
        return str(caught.value)

    assert "motor_constant" in refused(randomise={"kv": 1.0})
    assert "from 0 to 1" in refused(randomise={"loss": (0.0, 2.0)})
    assert "smaller number" in refused(randomise={"loss": (0.2, 0.1)})
    assert "whole number of ticks" in refused(decision_hz=300)
    assert "keyframe" in refused(robot=OWN, keyframe="stand")
    assert "`stand`" in refused(keyframe="squat")
    for wrong in (0.0, 4.0, np.nan):
        assert "max_tilt" in refused(max_tilt=wrong)
    assert "min_height" in refused(min_height=np.nan)
    assert "episode" in refused(episode=np.inf)
    assert "pose" in refused(pose=[np.nan] * 12)
    assert "front_left_hip at 100 rad is beyond its limits" in refused(pose=100)
    assert "smallest and the largest" in refused(randomise={"payload": (0, 1, 2)})
    assert "payload is inf" in refused(randomise={"payload": (0, np.inf)})
    assert "friction" in refused(randomise={"friction": 0.0})
    with pytest.raises(ValueError, match="latency is NaN"):
        standing().reset(options={"latency": np.nan})
    assert "decision_hz" in refused(decision_hz=1e-9)
    assert "12 servos" in refused(pose=[0.0] * 11)
    for wrong in (0.0, -1.0, np.inf):
        assert "action_scale" in refused(action_scale=wrong)
    free = kilohertz.Robot.emulated(2)
    assert "action_scale" in refused(robot=free)
    assert "[body]" in refused(robot=free, action_scale=1.0, randomise={"friction": 1.0})
    with pytest.raises(gymnasium.error.ResetNeeded):
        standing().step(np.zeros(12))


def test_without_gymnasium_the_message_says_what_to_install(tmp_path: pathlib.Path) -> None:
    (tmp_path / "gymnasium.py").write_text("raise ImportError(name='gymnasium')")
    program = "import kilohertz\ntry: kilohertz.Env\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "pip install gymnasium" in done.stdout, done.stderr


def test_a_few_iterations_of_learning_improve_the_return(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "python/examples/learn_to_walk.py"
    spec = importlib.util.spec_from_file_location("learn_to_walk", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    # Its processes look for it there.
    monkeypatch.setitem(sys.modules, "learn_to_walk", example)
    spec.loader.exec_module(example)
    monkeypatch.setattr(example, "EPISODE_S", 1.5)
    monkeypatch.setattr(example, "ROBOTS", 1)
    rewards, _ = example.search(str(MUJOCO), iterations=4, tries=16, best=4)
    assert rewards[-1] > rewards[0] + 0.03, rewards
