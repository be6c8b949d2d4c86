import abc
from typing import Any

from lerobot.device import Device


class Teleoperator(Device):
    @property
    @abc.abstractmethod
    def feedback_features(self) -> dict[str, Any]: ...
    @abc.abstractmethod
    def get_action(self) -> dict[str, Any]: ...
    @abc.abstractmethod
    def send_feedback(self, feedback: dict[str, Any]) -> None: ...
