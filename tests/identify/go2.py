"""A recording of a Unitree Go2 in the air beside its model, through an emulated robot's bytes, as published and with friction fitted.

    python tests/identify/go2.py go2.xml traj_0.pt

Both files are of iit-DLSLab/sim2real-robot-identification. The trunk is fixed, contacts are off. Damping, dry friction and armature of each joint are
fitted in MuJoCo alone on the first half of the recording, never corrected, and judged by the second.
"""

import math
import pathlib
import pickle
import re
import sys
import tempfile
import zipfile
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

import kilohertz

Array = npt.NDArray[np.float64]
KP, KD, ROW_S = 20.0, 1.5, 0.005
LEGS = ("FL", "FR", "RL", "RR")
JOINTS = [f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf")]
# Damping, N·m·s/rad, dry friction, N·m, and armature, kg·m², as published.
PUBLISHED = np.tile([0.6, 0.2, 0.01], (12, 1))
ROUNDS, NUDGE = 10, 0.05
BEFORE_S = 0.3

ROBOT = """
[loop]
rate_hz = 1000
bus_deadline_us = 900
[body]
kind = "mujoco"
model = "go2.xml"
keyframe = "first"
[log]
enabled = false
[servo_defaults]
family = "robstride"
robstride = { model = "RS03", velocity_range = 20, kp = 20, kd = 1.5, damping = 1.5 }
"""


def recording(path: str) -> tuple[Array, Array]:
    """Goals and positions, rad, a row every 5 ms: tensors as torch writes them, without torch."""
    archive = zipfile.ZipFile(path)
    root = archive.namelist()[0].split("/")[0]

    class Tensors(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if name == "_rebuild_tensor_v2":
                return lambda data, at, shape, stride, *_: data[at : at + math.prod(shape)].reshape(shape)
            return dict if name == "OrderedDict" else name

        def persistent_load(self, pid: Any) -> Any:
            return np.frombuffer(archive.read(f"{root}/data/{pid[2]}"), np.float32)

    tables = Tensors(archive.open(f"{root}/data.pkl")).load()
    return tables["des_dof_pos"].astype(float), tables["dof_pos"].astype(float)


def model(path: str, values: Array, first: Array) -> str:
    """The model in the air with these joints, without what is only seen."""
    text = re.sub(r"<keyframe>.*</keyframe>", "", pathlib.Path(path).read_text(), flags=re.DOTALL)
    text = re.sub(r'<mesh [^>]*/>|<geom [^>]*class="visual"[^>]*/>|<freejoint */>', "", text)
    text = re.sub(r"<option .*?/>", '<option><flag contact="disable"/></option>', text)
    for joint, (damping, friction, armature) in zip(JOINTS, values, strict=True):
        own = f'damping="{damping}" frictionloss="{friction}" armature="{armature}"'
        text = text.replace(f'<joint name="{joint}_joint"', f'<joint name="{joint}_joint" {own}')
    key = f'<keyframe><key name="first" qpos="{" ".join(map(str, first))}"/></keyframe>'
    return text.replace("</mujoco>", key + "</mujoco>")


def alone(loaded: Any, values: Array, goals: Array, first: Array) -> Array:
    """Positions at each row in MuJoCo alone."""
    loaded.opt.timestep = ROW_S / 2
    loaded.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    loaded.dof_damping[:], loaded.dof_frictionloss[:], loaded.dof_armature[:] = values.T + [[KD], [0], [0]]
    data = mujoco.MjData(loaded)
    data.qpos[:] = first
    most = loaded.actuator_ctrlrange[:, 1]
    positions = np.empty_like(goals)
    for row, goal in enumerate(goals):
        positions[row] = data.qpos
        for _ in range(2):
            data.ctrl[:] = np.clip(KP * (goal - data.qpos), -most, most)
            mujoco.mj_step(loaded, data)
    return positions


def fitted(path: str, goals: Array, seen: Array) -> Array:
    """Gauss and Newton for each leg by itself: with the trunk fixed none moves another."""
    loaded = mujoco.MjModel.from_xml_string(model(path, PUBLISHED, seen[0]))
    logs: Array = np.log(PUBLISHED)
    damping = np.full(4, 0.01)

    def left(logs: Array) -> Array:
        apart: Array = alone(loaded, np.exp(logs), goals, seen[0]) - seen
        return apart.reshape(-1, 4, 3).swapaxes(0, 1).reshape(4, -1)

    here = left(logs)
    for _ in range(ROUNDS):
        columns = []
        for part in range(3):
            for key in range(3):
                nudged = logs.copy()
                nudged[part::3, key] += NUDGE
                columns.append((left(nudged) - here) / NUDGE)
        found = logs.copy()
        for leg in range(4):
            slopes = np.array([column[leg] for column in columns])
            square = slopes @ slopes.T
            square += damping[leg] * np.diag(np.diag(square)) + 1e-9 * np.eye(9)
            step = np.linalg.solve(square, slopes @ here[leg]).clip(-1, 1)
            found[3 * leg : 3 * leg + 3] -= step.reshape(3, 3)
        found = found.clip(math.log(1e-4), math.log(5))
        better = (left(found) ** 2).sum(axis=1) < (here**2).sum(axis=1)
        damping *= np.where(better, 0.3, 5)
        logs = np.where(np.repeat(better, 3)[:, None], found, logs)
        here = left(logs)
    return np.exp(logs)


class Replay:
    """Sends the goals at their times, and keeps what the servos answer."""

    def __init__(self, goals: Array, first: Array) -> None:
        self.goals, self.first, self.begun = goals, first, math.nan
        self.seen: list[Array] = []

    def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
        if math.isnan(self.begun):
            self.begun = state.time
        now = state.time - self.begun
        self.seen.append(np.concatenate((now - state.age, state.position)))
        row = math.floor((now - BEFORE_S) / ROW_S + 1e-6)
        command.position = self.first if row < 0 else self.goals[min(row, len(self.goals) - 1)]


def through_the_bytes(path: str, values: Array, goals: Array, seen: Array) -> str:
    """Root mean square of what is left over, rad: of all, and of hips, thighs and calves."""
    text = ROBOT + "".join(f'[bus.{leg}]\nlink = "emulated"\nwire = "can"\nturnaround_us = 0\n' for leg in LEGS)
    for index, joint in enumerate(JOINTS):
        text += f'[[servo]]\nname = "{joint}"\nbus = "{joint[:2]}"\nid = {index % 3 + 1}\nmodel_joint = "{joint}_joint"\n'
    replay = Replay(goals, seen[0])
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "go2.xml").write_text(model(path, values, seen[0]))
        (pathlib.Path(folder) / "go2.toml").write_text(text)
        robot = kilohertz.Robot(pathlib.Path(folder) / "go2.toml")
        robot.run(replay, duration=BEFORE_S + ROW_S * len(goals) + 0.2, virtual_time=True, record=False, report=False)
    times, positions = np.split(np.array(replay.seen), 2, axis=1)
    at = BEFORE_S + ROW_S * np.arange(len(goals))
    left = np.array([np.interp(at, times[:, joint], positions[:, joint]) for joint in range(12)]).T - seen
    parts = ", ".join(f"{np.sqrt((left[:, part::3] ** 2).mean()):.4f}" for part in range(3))
    return f"{np.sqrt((left**2).mean()):.4f} rad ({parts})"


def main() -> None:
    path = sys.argv[1]
    goals, seen = recording(sys.argv[2])
    half = len(goals) // 2
    print("as published, all:", through_the_bytes(path, PUBLISHED, goals, seen))
    values = fitted(path, goals[:half], seen[:half])
    print(np.array2string(values, precision=4, suppress_small=True))
    print("fitted on the first half, there:", through_the_bytes(path, values, goals[:half], seen[:half]))
    print("on the second:", through_the_bytes(path, values, goals[half:], seen[half:]))


if __name__ == "__main__":
    main()
