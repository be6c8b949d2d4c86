"""What networks do: cut, slow, lossy; clocks that differ; many robots. No robot may notice, what is reported of a robot is true,
and everything lost is counted."""

import json
import os
import subprocess
import time
from collections.abc import Iterator

import pytest
from conftest import PATIENCE, Samples, Robot, Tokens, World, number, wait_for
from test_faults import memory_kib, runs_on, ticks
from wire import Wire


@pytest.fixture
def wire() -> Iterator[Wire]:
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespaces")
    wire = Wire()
    yield wire
    wire.end()


@pytest.fixture
def far(wire: Wire, world: World) -> Iterator[Robot]:
    """A robot with its bridge on the other side of the network; router and judge are on this one."""
    world.endpoint = world.endpoint.replace("127.0.0.1", wire.here)
    world.is_open = True
    world.router()
    yield world.robot("far", within=wire.within)
    # Sessions are closed over a network that is good.
    wire.be()


def test_a_network_cut_for_ten_seconds(wire: Wire, world: World, far: Robot) -> None:
    judge = world.judge()
    tokens = Tokens(judge, "khz/far/@up")
    statuses, samples = Samples(judge, far.key("@status")), Samples(judge, far.key("servo"))
    wait_for(lambda: tokens.now, "it is up")
    last = number(samples.wait(20, "samples")[-1])
    ticks_before = ticks(statuses)

    wire.be(cut=True)
    began = time.monotonic()
    wait_for(lambda: not tokens.now, "out of reach after the lease")
    stop = world.run("stop", "far", code=None)
    assert stop.returncode != 0 and "far" in stop.stdout + stop.stderr, "nobody says that it stopped"
    time.sleep(max(0.0, began + 10.0 - time.monotonic()))
    statuses.clear()
    samples.clear()
    wire.be()
    wait_for(lambda: tokens.now, "up again")
    runs_on(far, statuses)
    # It has not stood still meanwhile, nor did it stop on an order whose answer was lost. Of 200 ticks a second a busy computer
    # may skip most.
    assert ticks(statuses) > ticks_before + 100
    after = [number(sample) for sample in samples.wait(20, "samples again")]
    assert after == sorted(set(after)) and after[0] > last + 1, "the numbers tell what was lost"


def test_a_slow_network(wire: Wire, world: World, far: Robot) -> None:
    judge = world.judge()
    tokens = Tokens(judge, "khz/far/@up")
    statuses, samples = Samples(judge, far.key("@status")), Samples(judge, far.key("servo"))
    samples.wait(20, "samples")
    before = memory_kib(far.bridge.pid)
    wire.be(bytes_per_s=16e3, delay_s=0.1)
    time.sleep(3.0)
    samples.clear()
    got = [number(sample) for sample in samples.wait(10, "samples, however slowly")]
    assert got == sorted(set(got))
    assert tokens.now, "slow is not gone"
    statuses.clear()
    runs_on(far, statuses)
    assert memory_kib(far.bridge.pid) < before + 64 * 1024, "what does not get through is not kept"
    assert "at rest" in world.run("stop", "--timeout", "100", "far").stdout
    wait_for(lambda: far.process.poll() is not None, "it has stopped")


def test_who_is_there_is_reported_to_who_is_far_away(wire: Wire, world: World, far: Robot) -> None:
    """A network that answered later than after a second was reported to have no robot on it."""
    tokens = Tokens(world.judge(), "khz/far/@bridge/*")
    wait_for(lambda: tokens.now, "its bridge is there")
    wire.be(delay_s=0.55)

    def output() -> str:
        words = [*wire.within, *world.program(), "logs", "nobody"]
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE).stderr

    # A network that is still slower is said to be so, and a bridge that is busy may be off it for a moment: who is there is asked again.
    wait_for(lambda: "no robot `nobody` can be seen on the network, there is far" in output(), "who is there")


def test_a_lossy_network(wire: Wire, world: World, far: Robot) -> None:
    judge = world.judge()
    statuses, samples = Samples(judge, far.key("@status")), Samples(judge, far.key("servo"))
    samples.wait(20, "samples")
    wire.be(loss=0.1, delay_s=0.02)
    samples.clear()
    got = [number(sample) for sample in samples.wait(100, "samples in spite of it")]
    assert got == sorted(set(got))
    statuses.clear()
    runs_on(far, statuses)
    assert "at rest" in world.run("stop", "--timeout", "100", "far").stdout
    wait_for(lambda: far.process.poll() is not None, "it has stopped")


def test_clocks_an_hour_apart(world: World) -> None:
    """Ages come from when something arrived: the observer may have any time of day."""
    world.router()
    robot = world.robot("leg")
    judge = world.judge()
    statuses = Samples(judge, robot.key("@status"))
    statuses.wait(1, "it is up")

    def runs(**env: str) -> float | None:
        """How old its status is, once it is up and under control."""
        robots = json.loads(world.run("ls", "--json", code=None, **env).stdout)
        statuses = [robot["status"] for robot in robots if robot["up"]]
        return next((status["age_s"] for status in statuses if status["health"]["phase"] == "active"), None)

    wait_for(lambda: runs() is not None, "it runs")
    for offset in ("+3600", "-3600"):
        faked = {"LD_PRELOAD": faketime(), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        (age_s,) = wait_for(lambda: (age_s := runs(**faked)) is not None and (age_s,), f"it runs, seen {offset} s away")  # type: ignore[misc] # noqa: B023
        assert 0.0 <= age_s < 60.0
    runs_on(robot, statuses)


def faketime() -> str:
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
        library = f"{folder}/faketime/libfaketime.so.1"
        if os.path.isfile(library):
            return library
    pytest.fail("no libfaketime: apt-get install faketime")


def test_twenty_robots(world: World) -> None:
    """Twenty with twelve servos each, at a rate that half of two cores can emulate: the others may be busy."""
    world.router()
    robots = [world.robot(f"quad{index}", "quadruped", rate=20) for index in range(20)]
    judge = world.judge()
    tokens = Tokens(judge, "khz/*/@up")
    wait_for(lambda: len(tokens.now) == 20, "all are up", patience=120)
    statuses = {robot.name: Samples(judge, robot.key("@status")) for robot in robots}
    samples = {robot.name: Samples(judge, robot.key("servo")) for robot in robots}

    def silent() -> dict[str, str]:
        """Of whom there are too few samples yet, and whether they have ended."""
        few = [robot for robot in robots if len(samples[robot.name].samples) < 20]
        ended = {robot.name: world.output(f"robot-{robot.name}") for robot in few if robot.process.poll() is not None}
        assert not ended, ended
        return {robot.name: f"{len(samples[robot.name].samples)} samples" for robot in few}

    wait_for(lambda: not silent(), lambda: f"samples of each, missing: {silent()}", 120)
    for name, of in samples.items():
        got = [number(sample) for sample in of.all()]
        assert got == sorted(set(got)), f"{name}: nothing comes twice or late: what is lost is a gap in the numbers: {got}"
    before = {name: ticks(of) for name, of in statuses.items()}
    wait_for(lambda: all(ticks(of) > before[name] + 20 for name, of in statuses.items()), "all loops go on", 120)
    assert all(robot.process.poll() is None for robot in robots)
    # This program is the slowest reader of all.
    for of in samples.values():
        of.subscriber.undeclare()
    output = world.run("stop", "--timeout", "100", *statuses).stdout
    assert output.count("at rest") == 20, output
    wait_for(lambda: all(robot.process.poll() is not None for robot in robots), "all have stopped")
