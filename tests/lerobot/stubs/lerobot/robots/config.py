import pathlib
from dataclasses import dataclass
from typing import ClassVar

from lerobot.options import Registry


@dataclass(kw_only=True)
class RobotConfig(Registry):
    kinds: ClassVar[dict[str, type]] = {}
    id: str | None = None
    calibration_dir: pathlib.Path | None = None
