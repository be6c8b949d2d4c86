"""The options of `--teleop.type=kilohertz`."""

from dataclasses import dataclass

from lerobot.teleoperators.config import TeleoperatorConfig


@TeleoperatorConfig.register_subclass("kilohertz")
@dataclass(kw_only=True)
class KilohertzLeaderConfig(TeleoperatorConfig):
    """A leader: as the robot's options, and how it is made limp."""

    file: str = ""
    """The robot file; its controller is `targets`."""
    at: str = ""
    """Where a robot that runs receives targets, `unix:PATH`."""
    log: str = ""
    """Of `file`: where its log is written, in place of `log.path` of the robot file."""
    khz: str = ""
    """Of `file`: the command; otherwise the one that is installed beside this Python, or the one in PATH."""
    unit: str = "rad"
    """Of all angles here: `rad` or `deg`, as the robot's."""
    limp: bool = True
    """A hand moves it: its joints have no position gain. False: another program moves it, and it is only looked at."""
    damping: float = 0.0
    """Of a limp joint: the share of its velocity gain that stays, 0 to 1."""
    priority: int = 5
    """Among the programs that send targets, 0 to 9."""
    hold_s: float = 60.0
    """For so long it may stay limp when LeRobot asks for nothing."""
    wait_s: float = 10.0
    """How long connecting may take."""
