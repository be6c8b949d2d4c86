"""What LeRobot asks of every device, robot or teleoperator."""

from lerobot_robot_kilohertz.arm import Arm


class Device:
    """A device whose arm runs with Kilohertz; comes before LeRobot's own base class."""

    _arm: Arm

    @property
    def action_features(self) -> dict[str, type]:
        return {f"{joint}.pos": float for joint in self._arm.joints}

    @property
    def is_connected(self) -> bool:
        return self._arm.is_connected

    @property
    def is_calibrated(self) -> bool:
        return True

    def calibrate(self) -> None:
        """Zeros are the servos' own: `khz bus zero`."""

    def configure(self) -> None:
        """The robot file has it all."""
