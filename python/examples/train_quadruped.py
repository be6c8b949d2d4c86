"""A quadruped learns to walk in `kilohertz.VecEnv`; what it learned is an ONNX model that `khz run` walks by.

python train_quadruped.py train ROBOT.toml [ITERATIONS]      writes the model that the robot file names, and its hash into the file
python train_quadruped.py try ROBOT.toml [SECONDS]           how it walks

The robot file says what the policy sees and what its actions mean. The policy is one layer, from the direction of gravity, the trunk's
rate and a clock to the joints. The cross-entropy method finds it among those in which diagonal legs step together and left is as
right: it tries some around the best so far, and goes on from the best of these. It starts from standing still. The shipped policy is what
it found in two iterations. Needs `gymnasium` and `onnx`.
"""

import hashlib
import pathlib
import re
import sys
import time
import tomllib
from collections.abc import Iterator
from typing import Any

import numpy as np

import kilohertz

SEED = 1
#: m/s.
SPEED = 0.5
EPISODE_S = 4.0
#: What an iteration tries, and from how many of these the next one begins.
TRIES, BEST = 24, 6
#: On how many robots, each with its own friction, payload and motors.
ROBOTS = 2
#: What an action of 1 means is in the robot file; this is the search's own scale, so that its numbers are rad.
SCALE = 0.25
#: The scale of the trunk's rate in the robot file.
RATE = 0.25

#: The policy's numbers: where the search begins, and how far it looks around there.
PARAMETERS = {
    "thigh_sine": (0.0, 0.25),
    "thigh_cosine": (0.0, 0.1),
    "knee_sine": (0.0, 0.2),
    "knee_cosine": (0.0, 0.2),
    "lean": (0.0, 0.1),
    "crouch": (0.0, 0.1),
    "spread": (0.0, 0.1),
    "pitch_to_thigh": (0.0, 0.3),
    "pitch_rate_to_thigh": (0.0, 0.05),
    "roll_to_hip": (0.0, 0.3),
    "roll_rate_to_hip": (0.0, 0.05),
    "turn_to_hip": (0.0, 0.05),
}


def layer(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (joint, what is seen) and biases of a policy: gravity 3, rate 3, sine and cosine; hip, thigh and knee of front left, front
    right, rear left, rear right."""
    p = dict(zip(PARAMETERS, numbers, strict=True))
    weights, biases = np.zeros((4, 3, 8)), np.zeros((4, 3))
    for leg, (beat, side, end) in enumerate([(1, 1, 1), (-1, -1, 1), (-1, 1, -1), (1, -1, -1)]):
        hip, thigh, knee = weights[leg]
        hip[1], hip[3], hip[5] = p["roll_to_hip"], -p["roll_rate_to_hip"] / RATE, end * p["turn_to_hip"] / RATE
        thigh[0], thigh[4] = -p["pitch_to_thigh"], -p["pitch_rate_to_thigh"] / RATE
        thigh[6:] = beat * p["thigh_sine"], beat * p["thigh_cosine"]
        knee[6:] = beat * p["knee_sine"], beat * p["knee_cosine"]
        biases[leg] = side * p["spread"], p["lean"], p["crouch"]
    return weights.reshape(12, 8) / SCALE, biases.reshape(12) / SCALE


def environments(robot: str, count: int, episode: float) -> kilohertz.VecEnv:
    randomise = {"friction": (0.6, 1.0), "payload": (0.0, 1.0), "motor_constant": (0.95, 1.05)}
    return kilohertz.VecEnv(robot, count, policy=True, episode=episode, randomise=randomise)


def episodes(envs: kilohertz.VecEnv, policies: list[tuple[np.ndarray, np.ndarray]], seeds: list[int]) -> np.ndarray:
    """Of each policy on its robot: reward, speed forwards in m/s, and whether it fell. A robot that fell stands still from then on."""
    weights = np.array([weights for weights, _ in policies], dtype=np.float32)
    biases = np.array([biases for _, biases in policies], dtype=np.float32)
    seen, _ = envs.reset(seed=list(seeds))
    running, fell = np.ones(len(seeds), dtype=bool), np.zeros(len(seeds), dtype=bool)
    sums, decisions = np.zeros((4, len(seeds))), 0
    while running.any():
        actions = np.einsum("njs,ns->nj", weights, seen) + biases
        seen, _, terminated, truncated, info = envs.step(actions)
        measured = np.array([info["velocity"][:, 0], np.abs(info["velocity"][:, 1]), np.abs(info["rate"]).sum(axis=1), info["power"]])
        sums += np.where(running, measured, 0.0)
        fell |= running & terminated
        running &= ~(terminated | truncated)
        decisions += 1
    forward, aside, turning, power = sums / decisions
    rewards = -np.abs(forward - SPEED) - 0.3 * aside - 0.05 * turning - 0.0005 * power - 0.5 * fell
    return np.array([rewards, forward, fell])


def search(robot: str, iterations: int) -> Iterator[tuple[float, np.ndarray]]:
    """After each iteration the reward of its best tries, and the numbers found so far."""
    random = np.random.default_rng(SEED)
    mean, spread = (np.array(column) for column in zip(*PARAMETERS.values(), strict=True))
    least, began = 0.05 * spread, time.monotonic()
    envs = environments(robot, TRIES * ROBOTS, EPISODE_S)
    for iteration in range(iterations):
        tried = mean + spread * random.standard_normal((TRIES, len(mean)))
        # All try on the same robots, and in each iteration on others.
        seeds = [ROBOTS * iteration + number for number in range(ROBOTS)] * TRIES
        policies = [layer(numbers) for numbers in np.repeat(tried, ROBOTS, axis=0)]
        results = episodes(envs, policies, seeds).reshape(3, TRIES, ROBOTS).mean(axis=2)
        chosen = np.argsort(-results[0])[:BEST]
        mean, spread = tried[chosen].mean(axis=0), np.maximum(tried[chosen].std(axis=0), least)
        reward, speed, fell = results[:, chosen].mean(axis=1).tolist()
        took = time.monotonic() - began
        print(f"{iteration:3} {took:6.1f} s  reward {reward:7.4f}  {speed:6.3f} m/s  {100 * fell:3.0f} % fell", flush=True)
        yield reward, mean


def model(numbers: np.ndarray, controller: dict[str, Any]) -> bytes:
    """As an ONNX file with what the robot file has as its metadata."""
    from onnx import TensorProto, helper, numpy_helper

    weights, biases = (numpy_helper.from_array(part.astype(np.float32), name) for part, name in zip(layer(numbers), "wb", strict=True))
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["obs", "w", "b"], ["actions"], transB=1)],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, 12])],
        [weights, biases],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="train_quadruped.py")
    metadata = {
        "joint_names": controller["joints"],
        "default_joint_pos": controller["default"],
        "action_scale": controller["action"]["scale"] * len(controller["joints"]),
        "observation_names": [term["term"] for term in controller["observe"]],
    }
    helper.set_model_props(made, {name: ",".join(map(str, values)) for name, values in metadata.items()})
    return bytes(made.SerializeToString(deterministic=True))


def train(robot: str, iterations: int = 2) -> None:
    """Writes after each iteration, so that it may be stopped."""
    file = pathlib.Path(robot)
    for _, numbers in search(robot, iterations):
        text = file.read_text()
        controller = tomllib.loads(text)["controller"]
        made = model(numbers, controller)
        (file.parent / controller["model"]).write_bytes(made)
        file.write_text(re.sub(r'^sha256 = ".*"$', f'sha256 = "{hashlib.sha256(made).hexdigest()}"', text, flags=re.M))
    print({name: round(number, 4) for name, number in zip(PARAMETERS, numbers.tolist(), strict=True)})


def attempt(robot: str, seconds: float = 60.0) -> None:
    """In eight robots, each with its own friction, payload and motors."""
    file = pathlib.Path(robot)
    policy = kilohertz.Model(file.parent / tomllib.loads(file.read_text())["controller"]["model"])
    envs = environments(robot, 8, seconds)
    seen, info = envs.reset(seed=1000)
    running, forward, lasted = np.ones(8, dtype=bool), np.zeros(8), np.zeros(8)
    while running.any():
        seen, _, terminated, truncated, info = envs.step(np.array([policy(one) for one in seen]))
        forward += np.where(running, info["velocity"][:, 0], 0.0)
        lasted += running
        for number in np.flatnonzero(running & terminated):
            print(f"robot {number}: {info['end'][number]} after {info['time'][number]:.1f} s")
        running &= ~(terminated | truncated)
    print(", ".join(f"{speed:.3f}" for speed in forward / lasted), "m/s forwards")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", robot]:
            train(robot)
        case ["train", robot, iterations]:
            train(robot, int(iterations))
        case ["try", robot]:
            attempt(robot)
        case ["try", robot, seconds]:
            attempt(robot, float(seconds))
        case _:
            sys.exit(__doc__)
