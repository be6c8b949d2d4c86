"""A quadruped learns to walk forwards in `kilohertz.Env`, then walks in the loop at 1 kHz.

python learn_to_walk.py learn ROBOT.toml POLICY.json [ITERATIONS]
python learn_to_walk.py run ROBOT.toml POLICY.json [--virtual]

The policy is a trot of a few numbers with a small linear feedback of gravity's direction and the trunk's rate. The cross-entropy method
finds the numbers: it tries some around the best so far, and goes on from the best of these. It starts from standing still.
"""

import json
import multiprocessing
import sys
import time

import numpy as np

import kilohertz
import kilohertz.env

#: One leg after another: front left, front right, rear left, rear right; hip, thigh, knee.
POSE = [0.0, 0.75, -1.5] * 4
#: What an action of 1 means, rad.
SCALE = 0.6
DECISION_HZ = 50.0
EPISODE_S = 4.0
#: m/s.
SPEED = 0.6
#: What an iteration tries, and from how many of these the next one begins.
TRIES, BEST = 24, 6
#: On how many robots, each with its own friction, payload and motors.
ROBOTS = 2

#: The policy's numbers: where the search begins, and how far it looks around there.
PARAMETERS = {
    "frequency_hz": (2.0, 0.5),
    "thigh": (0.0, 0.2),
    "knee": (0.0, 0.2),
    "knee_phase": (0.0, 0.8),
    "lean": (0.0, 0.1),
    "crouch": (0.0, 0.1),
    "hip": (0.0, 0.1),
    "pitch_to_thigh": (0.0, 0.3),
    "pitch_rate_to_thigh": (0.0, 0.05),
    "roll_to_hip": (0.0, 0.3),
    "roll_rate_to_hip": (0.0, 0.05),
}


class Trot:
    """Diagonal legs together; from an observation to an action."""

    def __init__(self, parameters: dict[str, float]) -> None:
        self.numbers = parameters
        self.decision = 0

    def __call__(self, seen: np.ndarray) -> np.ndarray:
        p = self.numbers
        phase = 2 * np.pi * p["frequency_hz"] * self.decision / DECISION_HZ
        self.decision += 1
        (forward, left, _), (roll_rate, pitch_rate, _) = seen[24:27], seen[27:30]
        phases = phase + np.array([0.0, np.pi, np.pi, 0.0])
        # The first step is a small one.
        share = min(self.decision / (0.5 * DECISION_HZ), 1.0)
        thigh = p["lean"] - p["pitch_to_thigh"] * forward - p["pitch_rate_to_thigh"] * pitch_rate
        hip = p["hip"] * np.array([1, -1, 1, -1]) + p["roll_to_hip"] * left - p["roll_rate_to_hip"] * roll_rate
        legs = np.empty((4, 3))
        legs[:, 0] = hip
        legs[:, 1] = thigh + share * p["thigh"] * np.sin(phases)
        legs[:, 2] = p["crouch"] + share * p["knee"] * np.sin(phases + p["knee_phase"])
        return legs.ravel() / SCALE


def reward(info: kilohertz.env.Info) -> float:
    """Speed forwards, no more than is asked for: who runs as fast as it can falls more easily."""
    return float(min(info["velocity"][0], SPEED) - 0.2 * abs(info["velocity"][1]) - 0.001 * info["power"])


def environment(robot: str) -> kilohertz.Env:
    return kilohertz.Env(
        robot,
        reward=reward,
        decision_hz=DECISION_HZ,
        pose=POSE,
        action_scale=SCALE,
        keyframe="stand",
        episode=EPISODE_S,
        min_height=0.12,
        randomise={"friction": (0.6, 1.0), "payload": (0.0, 1.0), "motor_constant": (0.95, 1.05)},
    )


env: kilohertz.Env
"""That of this process."""


def begin(robot: str) -> None:
    """Once in each process."""
    global env
    env = environment(robot)


def episode(job: tuple[np.ndarray, int]) -> tuple[float, float]:
    """Mean reward of an episode, and speed in m/s; a robot that falls stands still from then on."""
    numbers, seed = job
    policy = Trot(dict(zip(PARAMETERS, numbers, strict=True)))
    seen, info = env.reset(seed=seed)
    start, rewards, over = info["position"][0], 0.0, False
    while not over:
        seen, reward, terminated, truncated, info = env.step(policy(seen))
        rewards += reward
        over = terminated or truncated
    rewards -= 10.0 * terminated
    return rewards / (EPISODE_S * DECISION_HZ), (info["position"][0] - start) / EPISODE_S


def search(robot: str, iterations: int, tries: int, best: int) -> tuple[list[float], dict[str, float]]:
    """The reward of the best tries of each iteration, and the parameters found."""
    random = np.random.default_rng(1)
    mean, spread = (np.array(column) for column in zip(*PARAMETERS.values(), strict=True))
    least, rewards, began = 0.05 * spread, [], time.monotonic()
    with multiprocessing.Pool(initializer=begin, initargs=(robot,)) as pool:
        for iteration in range(iterations):
            tried = mean + spread * random.standard_normal((tries, len(mean)))
            # All try on the same robots, and in each iteration on others.
            seeds = [ROBOTS * iteration + number for number in range(ROBOTS)]
            jobs = [(numbers, seed) for numbers in tried for seed in seeds]
            results = np.array(pool.map(episode, jobs)).reshape(tries, len(seeds), 2).mean(axis=1)
            chosen = np.argsort(-results[:, 0])[:best]
            mean, spread = tried[chosen].mean(axis=0), np.maximum(tried[chosen].std(axis=0), least)
            reward, speed = results[chosen].mean(axis=0).tolist()
            rewards.append(reward)
            print(f"{iteration:3} {time.monotonic() - began:6.1f} s  reward {reward:7.4f}  {speed:6.3f} m/s", flush=True)
    return rewards, dict(zip(PARAMETERS, mean.tolist(), strict=True))


def learn(robot: str, path: str, iterations: int = 20) -> None:
    _, parameters = search(robot, iterations, TRIES, BEST)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(parameters, file, indent=1)


def run(robot: str, path: str, virtual: bool) -> None:
    """Walks in the loop: the way between two ends is what it walked in the time between them."""
    with open(path, encoding="utf-8") as file:
        parameters = json.load(file)
    ways = []
    for seconds in (4.0, 12.0):
        controller = environment(robot).controller(Trot(parameters))
        try:
            summary = kilohertz.Robot(robot).run(controller, duration=seconds, record=False, virtual_time=virtual)
        except kilohertz.RobotError as error:
            # A busy computer is reason enough to bring a robot down.
            print(f"brought down after {error.summary.ticks} ticks: {error}")
            return
        ways.append(summary["trunk"]["position"][0])
    print(summary.verdict["text"])
    print(f"{summary.rate_hz:.1f} Hz, {summary.missed_replies} replies missed, {(ways[1] - ways[0]) / 8.0:.3f} m/s forwards")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["learn", robot, path]:
            learn(robot, path)
        case ["learn", robot, path, iterations]:
            learn(robot, path, int(iterations))
        case ["run", robot, path, *rest] if rest in ([], ["--virtual"]):
            run(robot, path, bool(rest))
        case _:
            sys.exit(__doc__)
