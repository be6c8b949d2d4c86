"""The same torques with the `mujoco` package alone: prints where the model ends.

`alone.py MODEL STEPS TORQUE`, with the package of the version in question on PYTHONPATH.
"""

import sys

import mujoco

model = mujoco.MjModel.from_xml_path(sys.argv[1])
data = mujoco.MjData(model)
hinges = [int(model.jnt_dofadr[joint]) for joint in range(model.njnt) if model.jnt_type[joint] == 3]
random = 1
for _ in range(int(sys.argv[2])):
    for hinge in hinges:
        random = (random * 1_664_525 + 1_013_904_223) & 0xFFFFFFFF
        data.qfrc_applied[hinge] = float(sys.argv[3]) * ((random >> 8) / float(1 << 23) - 1.0)
    mujoco.mj_step(model, data)
print([float(position) for position in data.qpos])
