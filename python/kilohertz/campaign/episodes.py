"""Episodes of an `Env`, one per seed, in a process of its own: `python -m kilohertz.campaign.episodes ROBOT FILE.py:NAME --seed N --scenarios N`.

`python -m kilohertz.campaign --episodes` starts it. It prints what `khz drill campaign --each` prints: a line of JSON to begin with, and one per seed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import math
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._native import KilohertzError, StartError, __version__

Policy = Callable[[Any], Any]
Make = Callable[[str], tuple[Any, Policy]]


def main() -> None:
    """Prints a line for each seed; ends with 2 if there is nothing to play."""
    parser = argparse.ArgumentParser()
    parser.add_argument("robot")
    parser.add_argument("episodes")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--scenarios", type=int)
    words = parser.parse_args()
    # A policy that prints must not print between the lines.
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        make = load(words.episodes)
        _made(make, words.robot)
    except (Exception, SystemExit) as error:
        sys.exit(f"{words.episodes}: {_brief(error)}")
    print(json.dumps({"format": "khz-campaign", "version": 1, "khz": __version__}), file=output)
    for seed in range(words.seed, words.seed + words.scenarios):
        print(json.dumps(episode(make, words.robot, seed)), file=output)


def load(name: str) -> Make:
    """The function called `FILE.py:NAME` or `MODULE:NAME`."""
    path, _, function = name.rpartition(":")
    if path.endswith(".py"):
        # Its neighbours are modules for it, as in a program.
        sys.path.insert(0, str(Path(path).resolve().parent))
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(path)
    make: Make = getattr(module, function)
    return make


def episode(make: Make, robot: str, seed: int) -> dict[str, Any]:
    """One episode, of an environment and a policy that have seen no other: what came before does not matter."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    row: dict[str, Any] = {"seed": seed, "robot": None, "scenario": None, "reward": 0.0, "length": 0, "time_s": 0.0}
    try:
        env, policy = _made(make, robot)
        with contextlib.closing(env):
            row["robot"] = env.unwrapped.robot.name
            _play(env, policy, seed, row)
    except StartError as error:
        row |= {"invariant": "start", "what": str(error)}
    except Exception as error:
        traceback.print_exc()
        row |= {"verdict": "error", "what": _brief(error)}
    return row


def _play(env: Any, policy: Policy, seed: int, row: dict[str, Any]) -> None:
    observation, info = env.reset(seed=seed)
    row["scenario"] = json.dumps(info.get("randomised", {}), sort_keys=True)
    terminated = truncated = False
    while not terminated and not truncated:
        observation, reward, terminated, truncated, info = env.step(policy(observation))
        row["length"] += 1
        if not math.isfinite(reward):
            raise ValueError(f"the reward of step {row['length']} is {reward}")
        row["reward"] += float(reward)
        row["time_s"] = float(info["time"])
    if terminated:
        row |= {"invariant": "terminated", "what": str(info["end"])}


def _made(make: Make, robot: str) -> tuple[Any, Policy]:
    env, policy = make(robot)
    if math.isinf(env.unwrapped._decisions):
        raise ValueError("its environment has no end (episode=None): give it an `episode` in seconds")
    return env, policy


def _brief(error: BaseException) -> str:
    """An error in a line, with where it came from."""
    if isinstance(error, KilohertzError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


if __name__ == "__main__":
    main()
