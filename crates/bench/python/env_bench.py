"""`kilohertz.Env` measured: a decision at 50 Hz against the same in MuJoCo alone, and what Python takes of it; `reset`.

Prints the lines of every bench.
"""

import pathlib
import statistics
import sys
import time

import mujoco
import numpy as np

import kilohertz

QUICK = "--quick" in sys.argv
ROBOTS = pathlib.Path(__file__).resolve().parents[3] / "robots"
ROUNDS = 100 if QUICK else 1000
RESETS = 20 if QUICK else 100
STAND = [0.0, 0.75, -1.5] * 4


class Alone:
    """The same model, step and gains in MuJoCo alone, as an environment would have them: no bus, no servos, no supervisor."""

    def __init__(self) -> None:
        spec = mujoco.MjSpec.from_file(str(ROBOTS / "models/quadruped.xml"))
        for joint in [joint.name for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_HINGE]:
            actuator = spec.add_actuator(target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            actuator.set_to_position(kp=31.8, kv=1.43)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        mujoco.mj_resetDataKeyframe(self.model, self.data, self.model.key("stand").id)
        self.steps = round(0.02 / self.model.opt.timestep)

    def step(self, action: np.ndarray) -> np.ndarray:
        self.data.ctrl[:] = STAND + action
        mujoco.mj_step(self.model, self.data, self.steps)
        return np.concatenate((self.data.qpos[7:], self.data.qvel[6:], self.data.qpos[3:7], self.data.qvel[3:6], action))


def took(what: object, *words: object) -> float:
    """CPU time of a call, µs: others on the machine do not count."""
    began = time.thread_time()
    what(*words)  # type: ignore[operator]
    return 1e6 * (time.thread_time() - began)


def main() -> None:
    env, alone = kilohertz.Env(ROBOTS / "quadruped_mujoco.toml", keyframe="stand", pose=STAND), Alone()
    resets = [took(env.reset) for _ in range(RESETS)]
    action = np.zeros(12, dtype=np.float32)
    for _ in range(50):
        env.step(action)
        alone.step(action)
    native = env._running()
    # In turn, so that a disturbance affects all; and each after MuJoCo alone, so that what is in the caches is the same.
    rounds = [
        (took(env.step, action), took(alone.step, action), took(native.advance, env.ticks), took(alone.step, action))
        for _ in range(ROUNDS)
    ]
    whole, pure, machine, _ = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"figure env_step {whole:.1f} µs")
    print(f"figure mujoco_alone {pure:.1f} µs")
    print(f"ratio env_step_to_mujoco {whole / pure:.2f} goal 2.5")
    print(f"figure env_overhead_per_step {whole - pure:.1f} µs goal 30")
    print(f"figure env_overhead_per_tick {(whole - pure) / env.ticks:.1f} µs")
    print(f"figure env_python {whole - machine:.1f} µs goal 30")
    print(f"figure env_reset {statistics.median(resets) / 1000:.1f} ms goal 50")


if __name__ == "__main__":
    main()
