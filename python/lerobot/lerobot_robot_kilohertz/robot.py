"""LeRobot's robot."""

import math
from typing import Any

from lerobot.robots.robot import Robot

from lerobot_robot_kilohertz.arm import Arm
from lerobot_robot_kilohertz.config_kilohertz import KilohertzConfig
from lerobot_robot_kilohertz.device import Device

# float32, in which LeRobot records, distinguishes whole numbers up to here.
TICKS = 1 << 24


class Kilohertz(Device, Robot):
    """A robot that runs with Kilohertz in a process of its own, and follows actions smoothly within the limits of its robot file."""

    config_class = KilohertzConfig
    name = "kilohertz"

    def __init__(self, config: KilohertzConfig) -> None:
        self._arm = Arm(config, "lerobot", config.rate_hz)
        self.config = config
        self.cameras: dict[str, Any] = {}
        super().__init__(config)

    @property
    def observation_features(self) -> dict[str, type]:
        joints, config = self._arm.joints, self.config
        kinds = ["pos"] + ["vel"] * config.velocity + ["torque"] * config.torque + ["cmd"] * config.extras
        names = [f"{joint}.{kind}" for kind in kinds for joint in joints]
        # LeRobot overlooks what is of any other type.
        return dict.fromkeys(names + ["age_ms", "tick_mod", "time_s"] * config.extras, float)

    def connect(self, calibrate: bool = True) -> None:
        """Returns when the robot is under control and every joint has been measured; raises the robot's reason why not."""
        self._arm.connect()
        try:
            # What a servo does not send is to be known before an episode is recorded.
            self.get_observation()
        except BaseException:
            self.disconnect()
            raise

    def get_observation(self) -> dict[str, float]:
        """What was measured in the newest tick; raises the robot's reason if it is down, and never has a NaN in it."""
        now, scale = self._arm.state(), self._arm.scale
        of = {
            "pos": [scale * position for position in now.position],
            "vel": [scale * velocity for velocity in now.velocity],
            "torque": now.torque,
            "cmd": [scale * command for command in now.command],
        }
        joints = self._arm.joints
        values = {f"{joint}.{kind}": value for kind, row in of.items() for joint, value in zip(joints, row, strict=True)}
        values |= {"age_ms": now.age_us / 1e3, "tick_mod": float(now.tick % TICKS), "time_s": (now.at_us - self._arm.began_us) / 1e6}
        observation = {name: values[name] for name in self.observation_features}
        if unknown := [name for name, value in observation.items() if not math.isfinite(value)]:
            raise RuntimeError(f"{', '.join(unknown)}: not measured by {self._arm}; --robot.velocity and --robot.torque leave them out")
        return observation

    def send_action(self, action: dict[str, Any]) -> dict[str, float]:
        """Sends the robot to these positions, and returns them within its limits of position. Joints that are not named stay."""
        joints = {name.removesuffix(".pos"): float(value) for name, value in action.items()}
        if wrong := [name for name in action if name not in self.action_features]:
            raise ValueError(f"{', '.join(wrong)}: no action of {self._arm}, which has {', '.join(self.action_features)}")
        if wrong := [joint for joint, value in joints.items() if not math.isfinite(value)]:
            raise ValueError(f"{', '.join(wrong)}: an action must be a number")
        if not joints:
            raise ValueError(f"an action must have at least one of {', '.join(self.action_features)}")
        scale, limits = self._arm.scale, self._arm.limits
        within = {joint: _clamped(value / scale, limits.get(joint)) for joint, value in joints.items()}
        self._arm.send(list(within), position=list(within.values()))
        return {f"{joint}.pos": scale * position for joint, position in within.items()}

    def disconnect(self) -> None:
        """Lets go of the robot. One that was started for this comes down; any other stays where it is."""
        self._arm.disconnect()


def _clamped(position: float, limits: tuple[float, float] | None) -> float:
    return position if limits is None else min(max(position, limits[0]), limits[1])
