"""The Python package measured: its own time around a controller in the loop, and against the official client.

Started by `cargo xtask bench python`; prints the lines of every bench.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import moteus
import moteus.fdcanusb_device

import kilohertz
from kilohertz import Mode

QUICK = "--quick" in sys.argv
SERVOS = 12
CYCLES = 30
TURNS = 6 if QUICK else 60

EMULATED = """
[robot]
name = "two chains"
[bus.ours]
link = "emulated"
wire = "instant"
[bus.official]
link = "emulated"
wire = "instant"
"""
CLIENT = """
[loop]
rate_hz = 100
[log]
enabled = false
[bus.main]
link = "fdcanusb"
path = "{path}"
checksum = true
"""


# The official client sends what it is given as floats: position and kp_scale.
COMMAND = """command.kp_scale = "float"
command.velocity = "none"
command.torque = "none"
command.kd_scale = "none"
command.max_torque = "none"
command.watchdog = "none"
"""


def servos(bus: str, prefix: str, command: str = "") -> str:
    each = '[[servo]]\nname = "{prefix}_{number}"\nbus = "{bus}"\nid = {number}\n{command}'
    numbers = range(1, SERVOS + 1)
    return "".join(each.format(prefix=prefix, bus=bus, number=number, command=command) for number in numbers)


def ratio(name: str, value: float, goal: float) -> None:
    print(f"ratio {name} {value:.4f} goal {goal}")


def figure(name: str, value: float, unit: str, goal: float) -> None:
    print(f"figure {name} {value:.3f} {unit} goal {goal}")


def in_the_loop() -> None:
    """NumPy PD of 12 joints at 1 kHz on the emulated quadruped."""

    class Pd:
        def start(self, state: kilohertz.State) -> None:
            self.target = state.position.copy()

        def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
            command.torque = 20.0 * (self.target - state.position) - 0.5 * state.velocity
            command.kp_scale = 0.0
            command.kd_scale = 0.0

    try:
        summary = kilohertz.Robot.quadruped().run(Pd(), duration=3.0 if QUICK else 30.0, record=False)
    except kilohertz.RobotError as error:
        print(f"the run ended early: {error}")
        summary = error.summary
    figure("python_overhead_p50", summary.overhead_ns["p50"] / 1000, "µs", 15.0)
    figure("python_overhead_p99", summary.overhead_ns["p99"] / 1000, "µs", 15.0)
    figure("python_controller_p50", summary.python_ns["p50"] / 1000, "µs", 500.0)
    figure("python_rate_error", abs(summary.rate_hz - 1000.0), "Hz", 0.1)


@contextmanager
def served(folder: str) -> Iterator[dict[str, str]]:
    """Two chains of emulated servos in a process of their own: bus name → terminal."""
    path = os.path.join(folder, "emulated.toml")
    with open(path, "w") as file:
        file.write(EMULATED + servos("ours", "ours") + servos("official", "official"))
    khz = subprocess.Popen([os.environ["KHZ"], "emulate", path], stdout=subprocess.PIPE, text=True)
    assert khz.stdout is not None
    endpoints = dict(khz.stdout.readline().split() for _ in range(2))
    try:
        yield endpoints
    finally:
        khz.terminate()
        khz.wait()


class Ours:
    def __init__(self, path: str) -> None:
        robot = kilohertz.Robot.parse(CLIENT.format(path=path) + servos("main", "servo", COMMAND))
        self.connection = robot.connect()
        self.state, self.command = self.connection.arrays()
        self.command.mode = Mode.POSITION
        self.command.kp_scale = 0.0

    def turn(self) -> None:
        for _ in range(CYCLES):
            self.command.position = 0.01
            missed = self.connection.cycle(self.command, self.state)
            assert missed == 0, f"{missed} servos did not answer"


class Official:
    def __init__(self, path: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.transport = self.loop.run_until_complete(self.open(path))
        ids = range(1, SERVOS + 1)
        self.controllers = [moteus.Controller(id=number, transport=self.transport) for number in ids]

    async def open(self, path: str) -> moteus.Transport:
        return moteus.Transport(moteus.fdcanusb_device.FdcanusbDevice(path))

    def turn(self) -> None:
        self.loop.run_until_complete(self.cycles())

    async def cycles(self) -> None:
        for _ in range(CYCLES):
            commands = [each.make_position(position=0.01, kp_scale=0.0, query=True) for each in self.controllers]
            replies = await self.transport.cycle(commands)
            assert len(replies) == SERVOS, f"{len(replies)} replies"


def timed(client: Ours | Official) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    client.turn()
    return (time.perf_counter() - wall) / CYCLES, (time.process_time() - cpu) / CYCLES


def against_the_official_client() -> None:
    with tempfile.TemporaryDirectory() as folder, served(folder) as endpoints:
        clients = [Ours(endpoints["ours"]), Official(endpoints["official"])]
        samples: list[list[tuple[float, float]]] = [[], []]
        for turn in range(TURNS + 1):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            for which in order:
                took = timed(clients[which])
                if turn > 0:
                    samples[which].append(took)
        (wall, cpu), (peer_wall, peer_cpu) = (
            [statistics.median(column) for column in zip(*each, strict=True)] for each in samples
        )
        ratio("python_cycle_of_official", wall / peer_wall, 0.1)
        ratio("python_cpu_of_official", cpu / peer_cpu, 0.1)
        figure("python_cycle", wall * 1e6, "µs", peer_wall * 1e5)
        figure("python_official_cycle", peer_wall * 1e6, "µs", float("inf"))


if __name__ == "__main__":
    in_the_loop()
    against_the_official_client()
