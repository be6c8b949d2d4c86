"""A transport for the vendor's Python package `moteus`: its tools and scripts run over any link of a robot file, and over
emulated robots, unchanged.

The package finds it by itself:

    moteus_tool --kilohertz robot.toml --target 1 --info
    KILOHERTZ_ROBOT=quadruped python my_script.py

The argument is a robot file, or `quadruped` for the emulated one. Its buses are the transport's devices.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from moteus import transport_device  # type: ignore[import-untyped, import-not-found, unused-ignore]

from . import _native
from .robot import Robot

VARIABLE = "KILOHERTZ_ROBOT"
"""Names the robot where no command line does."""

_IDLE_S = 0.0002


class Factory:
    """What `moteus` asks for devices."""

    PRIORITY = 9
    name = "kilohertz"

    def add_args(self, parser: argparse.ArgumentParser) -> None:
        """Adds our argument to the tools' command line."""
        parser.add_argument("--kilohertz", metavar="ROBOT", help="robot file, or `quadruped` for the emulated one")

    def is_args_set(self, args: argparse.Namespace | None) -> bool:
        """Whether the command line names a robot."""
        return bool(args and getattr(args, "kilohertz", None))

    def __call__(self, args: argparse.Namespace | None) -> list[Bus]:
        """The robot's buses. Raises RuntimeError if no robot is named, so that others are asked."""
        name = (getattr(args, "kilohertz", None) if args else None) or os.environ.get(VARIABLE)
        if not name:
            raise RuntimeError(f"no robot is named: give --kilohertz ROBOT, or set {VARIABLE}")
        return buses(Robot.quadruped() if name == "quadruped" else Robot(name))


def buses(robot: Robot) -> list[Bus]:
    """Opens a robot's buses as devices for `moteus.Transport`."""
    hub = _Hub(robot._native.connect())
    hub.buses = [Bus(hub, index, name) for index, name in enumerate(robot.buses)]
    return hub.buses


class _Hub:
    """The connection the buses share."""

    def __init__(self, native: _native.Connection) -> None:
        self.native = native
        self.buses: list[Bus] = []
        self.open = True

    def pump(self) -> bool:
        """Hands one received frame to its bus; False if there is none."""
        received = self.native.receive()
        if received is None:
            return False
        index, identifier, data = received
        self.buses[index]._deliver(identifier, data)
        return True

    def close(self) -> None:
        if self.open:
            self.open = False
            self.native.close()


class Bus(transport_device.TransportDevice):  # type: ignore[misc, unused-ignore]
    """One bus of a robot as a device of `moteus`."""

    def __init__(self, hub: _Hub, index: int, name: str) -> None:
        super().__init__()
        self._hub = hub
        self._index = index
        self._name = name
        self._waiting: list[Any] = []

    def __repr__(self) -> str:
        return f"Kilohertz('{self._name}')"

    def close(self) -> None:
        """Closes the robot's connection, all of its buses."""
        self._hub.close()

    def empty_bus_tx_safe(self) -> bool:
        """A frame that no device receives causes no error."""
        return True

    async def send_frame(self, frame: Any) -> None:
        """Sends a frame, padded to a length CAN-FD has."""
        length = self._round_up_dlc(len(frame.data))
        self._hub.native.send(self._index, frame.arbitration_id, bytes(frame.data).ljust(length, b"\x50"))

    async def receive_frame(self) -> Any:
        """Waits for a frame that no other caller has taken."""
        while not self._receive_queue:
            if not self._hub.pump():
                await asyncio.sleep(_IDLE_S)
        return self._receive_queue.pop(0)

    async def transaction(self, requests: list[Any], **_: Any) -> None:
        """Sends every request, then waits for one reply to each that wants one. What only the vendor's pi3hat has (its
        IMU) is not asked for here."""
        wanted = [request for request in requests if request.frame_filter is not None]
        self._waiting += wanted
        try:
            for request in requests:
                await self.send_frame(request.frame)
            while any(not request.responses for request in wanted):
                # Others run meanwhile, so that a time-out can end this.
                await asyncio.sleep(0 if self._hub.pump() else _IDLE_S)
        finally:
            self._waiting = [each for each in self._waiting if not any(each is request for request in wanted)]

    def _deliver(self, identifier: int, data: bytes) -> None:
        frame = transport_device.Frame(
            arbitration_id=identifier,
            data=data,
            dlc=len(data),
            is_extended_id=identifier > 0x7FF,
            is_fd=True,
            bitrate_switch=True,
            channel=self,
        )
        for request in self._waiting:
            if not request.responses and request.frame_filter(frame):
                request.responses.append(frame)
                return
        self._receive_queue.append(frame)
        del self._receive_queue[: -self._max_buffer_size]
