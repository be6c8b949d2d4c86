"""Emulated servos behind an emulated slcan adapter, for programs that know nothing of either."""

import pathlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import can
from can.interfaces.slcan import slcanBus


@contextmanager
def served(khz: str, folder: pathlib.Path, robot: str, answers: str = "slcan:") -> Iterator[str]:
    """The terminal at which the servos of a robot file are, on its bus `main`; `answers` is the adapter."""
    path = folder / "robot.toml"
    path.write_text(robot)
    command = [khz, "emulate", str(path), "--at", f"main={answers}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as machine:
        assert machine.stdout is not None
        try:
            yield machine.stdout.readline().split()[1]
        finally:
            machine.terminate()


class PatientBus(slcanBus):
    """An slcan adapter for programs that give up after 0.1 s, which a busy machine may need for a reply."""

    def __init__(self, path: str, patience: float = 20) -> None:
        # Before it is open it reads already.
        self.patience = patience
        super().__init__(path, bitrate=1_000_000, sleep_after_open=0.05)

    def recv(self, timeout: float | None = None) -> can.Message | None:
        return super().recv(None if timeout is None else self.patience * timeout)
