"""Robots that run with Kilohertz, for LeRobot: `--robot.type=kilohertz`.

LeRobot imports the package of this name and no other of a distribution, so the teleoperator is registered from here, too.
"""

from lerobot_robot_kilohertz.config_kilohertz import KilohertzConfig
from lerobot_robot_kilohertz.robot import Kilohertz
from lerobot_teleoperator_kilohertz import KilohertzLeader, KilohertzLeaderConfig

__all__ = ["Kilohertz", "KilohertzConfig", "KilohertzLeader", "KilohertzLeaderConfig"]
