"""Episodes for a campaign: a quadruped with an uncertain load and an imperfect bus stands for two seconds.

python -m kilohertz.campaign robots/quadruped_mujoco.toml --episodes stand_still.py:make --scenarios 100 --out standing
"""

from typing import Any

import numpy as np
import numpy.typing as npt

import kilohertz

POSE = [0.0, 0.75, -1.5] * 4
RANDOMISE = {"payload": (0.0, 3.0), "friction": (0.3, 1.0), "loss": (0.0, 0.002), "latency": (0.0, 20.0)}


def policy(observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Pulls each joint back to the pose a little harder than its servo does."""
    return -0.2 * observation[:12]


def upright(info: dict[str, Any]) -> float:
    """What a decision is worth: not to move."""
    return float(1.0 - np.linalg.norm(info["velocity"]))


def make(robot: str) -> tuple[kilohertz.Env, Any]:
    """The environment and the policy of one episode: a campaign calls this anew for each."""
    env = kilohertz.Env(robot, keyframe="stand", pose=POSE, episode=2.0, max_tilt=0.5, reward=upright, randomise=RANDOMISE)
    return env, policy
