"""LeRobot's teleoperator: a robot that a hand moves."""

import math
from typing import Any

from lerobot.teleoperators.teleoperator import Teleoperator

from lerobot_robot_kilohertz.arm import Arm
from lerobot_robot_kilohertz.device import Device
from lerobot_teleoperator_kilohertz.config_kilohertz import KilohertzLeaderConfig


class KilohertzLeader(Device, Teleoperator):
    """A robot that runs with Kilohertz in a process of its own; its joints are limp, and their positions the actions."""

    config_class = KilohertzLeaderConfig
    name = "kilohertz"

    def __init__(self, config: KilohertzLeaderConfig) -> None:
        if not 0.0 <= config.damping <= 1.0:
            raise ValueError(f"`damping` must be 0 to 1, not {config.damping}")
        self._arm = Arm(config, "lerobot leader")
        self.config = config
        # N·m, by joint.
        self._feedback: dict[str, float] = {}
        super().__init__(config)

    @property
    def feedback_features(self) -> dict[str, type]:
        return {f"{joint}.torque": float for joint in self._arm.joints} if self.config.limp else {}

    def connect(self, calibrate: bool = True) -> None:
        """Returns when the leader is under control, every joint has been measured and none is held."""
        self._arm.connect()
        try:
            self.get_action()
        except BaseException:
            self.disconnect()
            raise

    def get_action(self) -> dict[str, float]:
        """Where the leader is; raises its reason if it is down."""
        position = self._arm.state().position
        if self.config.limp:
            self._lead(position, stiffness=0.0, damping=self.config.damping)
        return {f"{joint}.pos": self._arm.scale * value for joint, value in zip(self._arm.joints, position, strict=True)}

    def send_feedback(self, feedback: dict[str, Any]) -> None:
        """Torques that a hand is to feel, N·m, from the next action on; those of other joints stay."""
        if wrong := [name for name in feedback if name not in self.feedback_features]:
            raise ValueError(f"{', '.join(wrong)}: no feedback of {self._arm}")
        torques = {name.removesuffix(".torque"): float(torque) for name, torque in feedback.items()}
        if wrong := [joint for joint, torque in torques.items() if not math.isfinite(torque)]:
            raise ValueError(f"{', '.join(wrong)}: a torque must be a number")
        self._feedback |= torques

    def disconnect(self) -> None:
        """Lets go of the leader, which holds itself again; one that was started for this comes down."""
        if self.is_connected and self.config.limp:
            self._feedback.clear()
            try:
                self._lead(self._arm.state().position, stiffness=1.0, damping=1.0)
            except RuntimeError:
                # It is down: nothing is to be held.
                pass
        self._arm.disconnect()

    def _lead(self, position: list[float], stiffness: float, damping: float) -> None:
        joints = self._arm.joints
        torque = [self._feedback.get(joint, 0.0) for joint in joints]
        self._arm.send(joints, position=position, torque=torque, kp_scale=[stiffness] * len(joints), kd_scale=[damping] * len(joints))
