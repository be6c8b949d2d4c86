"""The options of `--robot.type=kilohertz`."""

from dataclasses import dataclass

from lerobot.robots.config import RobotConfig


@RobotConfig.register_subclass("kilohertz")
@dataclass(kw_only=True)
class KilohertzConfig(RobotConfig):
    """A robot in a process of its own: one that runs (`at`), or that is started and ended with LeRobot's (`file`)."""

    file: str = ""
    """The robot file; its controller is `targets`."""
    at: str = ""
    """Where a robot that runs receives targets, `unix:PATH`, as its `[targets] from` says."""
    log: str = ""
    """Of `file`: where its log is written, in place of `log.path` of the robot file."""
    khz: str = ""
    """Of `file`: the command; otherwise the one that is installed beside this Python, or the one in PATH."""
    unit: str = "rad"
    """Of all angles here: `rad` or `deg`. Torques are N·m."""
    velocity: bool = True
    """Observe `JOINT.vel`, too."""
    torque: bool = True
    """Observe `JOINT.torque`, too."""
    extras: bool = True
    """Observe what was sent (`JOINT.cmd`), and `age_ms`, `tick_mod` and `time_s`, too."""
    rate_hz: float = 0.0
    """How often actions come, if it is to be declared; otherwise the robot learns it from their times."""
    priority: int = 5
    """Among the programs that send targets, 0 to 9."""
    hold_s: float = 60.0
    """LeRobot sends nothing while it saves an episode; for so long after an action that is no fault."""
    wait_s: float = 10.0
    """How long connecting may take."""
