"""Emulated servos, served by `khz emulate` for the official client."""

import contextlib
import dataclasses
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import moteus
import pytest

# Of a terminal that is no USB adapter the client expects answers within 0.2 s, for which a busy machine may stand still.
PATIENT = {"command_timeout": 20.0, "response_timeout": 20.0}
TOOL = """
import runpy
import moteus.fdcanusb_device as device
device.DEFAULT_COMMAND_TIMEOUT = device.DEFAULT_RESPONSE_TIMEOUT = 20.0
runpy.run_module("moteus.moteus_tool", run_name="__main__")
"""


@dataclasses.dataclass
class Served:
    """A running `khz emulate`."""

    endpoints: dict[str, str]

    @property
    def path(self) -> str:
        """The first bus."""
        return next(iter(self.endpoints.values()))

    def transport(self) -> moteus.Transport:
        """The official client's connection to the first bus."""
        return moteus.Transport([moteus.FdcanusbDevice(self.path, **PATIENT)])

    def tool(self, *words: str, timeout: float = 120.0) -> str:
        """Runs the official `moteus_tool` on all buses; what it printed. Fails the test if the tool fails. The first time Python
        compiles all that it imports, which takes half a minute on a busy computer."""
        paths = [word for path in self.endpoints.values() for word in ("--fdcanusb", path)]
        done = subprocess.run(
            [sys.executable, "-c", TOOL, *paths, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def robot(buses: dict[str, list[int]]) -> str:
    """A robot file with the servos' ids of each bus."""
    lines = []
    for bus, ids in buses.items():
        lines.append(f'[bus.{bus}]\nlink = "emulated"')
        lines += [f'[[servo]]\nname = "{bus}_{id}"\nbus = "{bus}"\nid = {id}' for id in ids]
    return "\n".join(lines) + "\n"


@pytest.fixture
def serve(khz: str, tmp_path: pathlib.Path) -> Iterator[Callable[..., Served]]:
    """Starts `khz emulate` for a robot, with additions to its file; it ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(buses: dict[str, list[int]], more: str = "") -> Served:
            file = tmp_path / "robot.toml"
            file.write_text(robot(buses) + more)
            process = stack.enter_context(
                subprocess.Popen([khz, "emulate", str(file)], stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.send_signal, signal.SIGINT)
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in buses]
            assert [line[0] for line in lines] == list(buses), lines
            return Served(dict(lines))

        yield start


@pytest.fixture
def one(serve: Callable[[dict[str, list[int]]], Served]) -> Served:
    """One bus with servo 1."""
    return serve({"main": [1]})


@pytest.fixture
def two(serve: Callable[[dict[str, list[int]]], Served]) -> Served:
    """One bus with servos 1 and 2."""
    return serve({"main": [1, 2]})
