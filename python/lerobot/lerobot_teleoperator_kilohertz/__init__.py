"""A Kilohertz robot as the leader of another, for LeRobot: `--teleop.type=kilohertz`."""

from lerobot_teleoperator_kilohertz.config_kilohertz import KilohertzLeaderConfig
from lerobot_teleoperator_kilohertz.leader import KilohertzLeader

__all__ = ["KilohertzLeader", "KilohertzLeaderConfig"]
