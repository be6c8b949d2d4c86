import abc
from typing import Any


class Device(abc.ABC):
    config_class: type
    name: str

    def __init__(self, config: Any) -> None:
        self.id = config.id

    def __del__(self) -> None:
        try:
            if self.is_connected:
                self.disconnect()
        except Exception:
            pass

    @property
    @abc.abstractmethod
    def action_features(self) -> dict[str, Any]: ...
    @property
    @abc.abstractmethod
    def is_connected(self) -> bool: ...
    @abc.abstractmethod
    def connect(self, calibrate: bool = True) -> None: ...
    @property
    @abc.abstractmethod
    def is_calibrated(self) -> bool: ...
    @abc.abstractmethod
    def calibrate(self) -> None: ...
    @abc.abstractmethod
    def configure(self) -> None: ...
    @abc.abstractmethod
    def disconnect(self) -> None: ...
