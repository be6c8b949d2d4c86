import abc
from typing import Any

from lerobot.device import Device


class Robot(Device):
    @property
    @abc.abstractmethod
    def observation_features(self) -> dict[str, Any]: ...
    @abc.abstractmethod
    def get_observation(self) -> dict[str, Any]: ...
    @abc.abstractmethod
    def send_action(self, action: dict[str, Any]) -> dict[str, Any]: ...
