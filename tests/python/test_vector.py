"""Many robots in one call: each is that of an environment of its own."""

import os
import pathlib
import time
from typing import Any

import gymnasium
import numpy as np
import pytest

import kilohertz

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = ROOT / "robots/quadruped.toml"
MUJOCO = ROOT / "robots/quadruped_mujoco.toml"
STAND = [0.0, 0.75, -1.5] * 4
DRAWS = {"payload": (0.0, 2.0), "loss": (0.0, 0.001)}


def same(rows: Any, number: int, one: Any) -> bool:
    """To the last bit."""
    return np.array_equal(np.asarray(rows)[number], one)


@pytest.mark.parametrize(("robot", "threads"), [(OWN, 1), (OWN, 3), (MUJOCO, 2)])
def test_each_robot_is_that_of_an_environment_with_its_seed(robot: pathlib.Path, threads: int) -> None:
    options: dict[str, Any] = {"pose": STAND, "randomise": DRAWS, "episode": 0.2}
    envs = kilohertz.VecEnv(robot, 3, threads=threads, **options)
    alone = [kilohertz.Env(robot, **options) for _ in range(3)]
    seen, info = envs.reset(seed=7)
    for number, env in enumerate(alone):
        first, own_info = env.reset(seed=7 + number)
        assert same(seen, number, first)
        assert all(same(info["randomised"][name], number, value) for name, value in own_info["randomised"].items())
    random = np.random.default_rng(1)
    for step in range(25):
        actions = 0.3 * random.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        seen, rewards, terminated, truncated, info = envs.step(actions)
        for number, env in enumerate(alone):
            if step % 11 == 10:
                # After the ten decisions of an episode all begin anew.
                first, own_info = env.reset()
                assert same(seen, number, first) and not rewards[number] and not truncated[number]
                continue
            own, reward, over, cut, own_info = env.step(actions[number])
            assert same(seen, number, own) and rewards[number] == reward
            assert (terminated[number], truncated[number]) == (over, cut)
            shared = own_info.keys() - {"randomised", "faults"}
            assert shared == info.keys() - {"randomised", "faults"}
            assert all(same(info[name], number, own_info[name]) for name in shared)


def test_a_robot_that_comes_down_begins_anew_alone() -> None:
    envs = kilohertz.VecEnv(MUJOCO, 3, keyframe="stand", min_height=0.2, randomise=DRAWS)
    envs.reset(seed=1)
    folding = np.zeros((3, 12))
    folding[1] = np.tile([0.0, 1.0, -1.0], 4)
    ended = -1
    for step in range(60):
        _, _, terminated, truncated, info = envs.step(folding)
        assert not terminated[[0, 2]].any() and not truncated.any()
        if terminated[1]:
            ended = step
            assert info["end"].tolist() == [None, "lower than 0.2 m", None]
            times, drawn = info["time"].copy(), info["randomised"]["payload"].copy()
            break
    assert ended > 0
    _, rewards, terminated, _, info = envs.step(folding)
    assert info["time"][1] == 0 and rewards[1] == 0 and not terminated.any()
    assert (info["time"][[0, 2]] > times[[0, 2]]).all()
    changed = info["randomised"]["payload"] != drawn
    assert changed.tolist() == [False, True, False]


def test_who_begins_anew_no_longer_has_what_options_set() -> None:
    envs = kilohertz.VecEnv(MUJOCO, 2, keyframe="stand", min_height=0.2)
    envs.reset(seed=1, options={"friction": 0.5})
    folding = np.zeros((2, 12))
    folding[1] = np.tile([0.0, 1.0, -1.0], 4)
    terminated = np.zeros(2, dtype=bool)
    while not terminated[1]:
        terminated = envs.step(folding)[2]
    friction = envs.step(folding)[4]["randomised"]["friction"]
    assert friction[0] == 0.5 and np.isnan(friction[1])


def test_seeds_and_resets() -> None:
    def begin(seed: Any, again: bool = False) -> np.ndarray:
        envs = kilohertz.VecEnv(OWN, 3, pose=STAND, randomise=DRAWS)
        seen, info = envs.reset(seed=seed)
        if again:
            info = envs.reset()[1]
        return np.asarray(info["randomised"]["payload"])

    assert np.array_equal(begin(5), begin([5, 6, 7])) and not np.array_equal(begin(5), begin(6))
    assert np.array_equal(begin(5, again=True), begin(5, again=True))
    assert not np.array_equal(begin(5), begin(5, again=True)) and len(set(begin(None))) == 3


def test_what_was_returned_is_not_rewritten() -> None:
    envs = kilohertz.VecEnv(OWN, 2, pose=STAND)
    first, info = envs.reset(seed=1)
    kept, place = first.copy(), info["position"].copy()
    envs.step(np.full((2, 12), 0.3))
    assert np.array_equal(first, kept) and np.array_equal(info["position"], place)


def test_gymnasium_knows_it_as_its_own() -> None:
    envs = kilohertz.VecEnv(OWN, 2, pose=STAND, episode=0.1)
    assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    seen, _ = counted.reset(seed=1)
    assert seen in envs.observation_space and envs.num_envs == 2
    lengths = []
    for _ in range(12):
        *_, info = counted.step(envs.action_space.sample() * np.float32(0.1))
        lengths += info["episode"]["l"][info["_episode"]].tolist() if "episode" in info else []
    assert lengths == [5, 5, 5, 5]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="num_envs is 0"):
        kilohertz.VecEnv(OWN, 0)
    with pytest.raises(ValueError, match="threads is -1"):
        kilohertz.VecEnv(OWN, 1, threads=-1)
    envs = kilohertz.VecEnv(OWN, 2, pose=STAND, reward=lambda info: 1.0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros((2, 12)))
    with pytest.raises(ValueError, match="3 seeds for 2 robots"):
        envs.reset(seed=[1, 2, 3])
    envs.reset(seed=1)
    with pytest.raises(ValueError, match=r"the shape \(12,\); it is \(2, 12\)"):
        envs.step(np.zeros(12))
    with pytest.raises(ValueError, match="one for each robot"):
        envs.step(np.zeros((2, 12)))
    with pytest.raises(kilohertz.CommandError):
        envs.step(np.full((2, 12), np.nan))
    lost = kilohertz.VecEnv(OWN, 2, pose=STAND, randomise={"loss": 0.5})
    with pytest.raises(kilohertz.StartError, match="did not come under control"):
        lost.reset(seed=1)


def test_two_threads_do_more_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Only shown: a computer may be busy with something else."""

    def rate(threads: int) -> float:
        envs = kilohertz.VecEnv(OWN, 8, threads=threads, pose=STAND)
        envs.reset(seed=1)
        began = time.perf_counter()
        for _ in range(10):
            envs.step(np.zeros((8, 12)))
        return 80 / (time.perf_counter() - began)

    rates = [[rate(threads) for threads in (1, 2)] for _ in range(3)]
    ratio = sorted(two / one for one, two in rates)[1]
    with capsys.disabled():
        print(f"\n[decisions a second on one thread and on two: {rates[0][0]:.0f}, {rates[0][1]:.0f}; ratio {ratio:.2f}; {os.cpu_count()} CPUs]")
