"""What breaks: router, bridge, robot, a reader that never reads, two robots of one name. No other may notice, and
everything lost is counted."""

import json
import multiprocessing
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time
from typing import Any

import zenoh
from conftest import PATIENCE, Samples, Robot, Tokens, World, ask, in_time, number, wait_for
from robots import free_port


def status(statuses: Samples) -> dict[str, object]:
    sample = statuses.wait(1, "a status")[-1]
    answer: dict[str, object] = json.loads(bytes(sample.payload))
    return answer


def ticks(statuses: Samples) -> int:
    return int(status(statuses)["health"]["run"]["ticks"])  # type: ignore[index]


def runs_on(robot: Robot, statuses: Samples) -> None:
    """The robot's loop still ticks, and as it should."""
    before = ticks(statuses)
    wait_for(lambda: ticks(statuses) > before + 50, "the loop goes on")
    # A run that has just begun is under control soon.
    wait_for(lambda: status(statuses)["health"]["phase"] == "active", "it is under control")  # type: ignore[index]
    assert robot.process.poll() is None


def one_robot(world: World, name: str, **more: Any) -> tuple[zenoh.Session, Robot, Tokens, Samples]:
    """A router and a robot that is up; its tokens and statuses, and a client that sees them."""
    world.router()
    judge = world.judge()
    robot = world.robot(name, **more)
    tokens = Tokens(judge, robot.key("@up"), robot.key("@bridge/*"))
    statuses = Samples(judge, robot.key("@status"))
    wait_for(lambda: robot.key("@up") in tokens.now, "it is up")
    return judge, robot, tokens, statuses


def test_a_router_that_dies_and_comes_back(world: World) -> None:
    router = world.router()
    robots = [world.robot("one"), world.robot("two")]
    judge = world.judge(connect={"endpoints": [world.endpoint], "timeout_ms": -1, "exit_on_failure": False})
    tokens = Tokens(judge, "khz/*/@up")
    statuses = {robot.name: Samples(judge, robot.key("@status")) for robot in robots}
    samples = Samples(judge, "khz/one/servo")
    wait_for(lambda: tokens.now == {"khz/one/@up", "khz/two/@up"}, "both are up")
    last = number(samples.wait(20, "samples")[-1])
    # One a second: on a busy machine none may have come yet, and without a router none comes.
    for name, status_samples in statuses.items():
        status_samples.wait(1, f"a status of {name}")

    router.kill()
    router.wait()
    wait_for(lambda: not tokens.now, "neither can be reached")
    wait_for(lambda: "no router answers" in world.run("ls", code=2).stderr, "ls says so")
    time.sleep(1.0)
    samples.clear()
    before = {name: int(status(status_samples)["sent"]) for name, status_samples in statuses.items()}  # type: ignore[call-overload]
    for status_samples in statuses.values():
        status_samples.clear()
    world.router()
    wait_for(lambda: tokens.now == {"khz/one/@up", "khz/two/@up"}, "both are up again")
    for robot in robots:
        runs_on(robot, statuses[robot.name])
    # What was put meanwhile is lost without an error; the numbers show how much. The bridge counted on.
    after = samples.wait(20, "samples again")
    numbers = [number(sample) for sample in after]
    assert numbers == sorted(set(numbers)) and numbers[0] > last + 1
    assert all(int(status(status_samples)["sent"]) > before[name] for name, status_samples in statuses.items())  # type: ignore[call-overload]


def test_a_bridge_that_dies(world: World) -> None:
    judge, robot, tokens, statuses = one_robot(world, "leg")
    ticks_before = ticks(statuses)
    robot.bridge.kill()
    robot.bridge.wait()
    wait_for(lambda: not tokens.now, "bridge and robot are gone from the network")
    assert robot.process.poll() is None
    statuses.clear()
    robot.bridge = robot.start_bridge()
    wait_for(lambda: "khz/leg/@up" in tokens.now, "it is up again")
    runs_on(robot, statuses)
    assert ticks(statuses) != ticks_before
    fine, answer = ask(judge, robot.key("newest/robot"))
    assert fine or b"no sample" in answer or b"no record" in answer


def test_a_robot_that_dies_freezes_and_comes_back(world: World) -> None:
    judge, robot, tokens, _ = one_robot(world, "leg")
    up = robot.key("@up")
    samples = Samples(judge, robot.key("servo"))
    samples.wait(20, "samples")
    robot.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: up not in tokens.now, "a frozen one is not up")
    last = number(samples.all()[-1])
    samples.clear()
    robot.process.send_signal(signal.SIGCONT)
    wait_for(lambda: up in tokens.now, "up again")
    assert number(samples.wait(1, "samples again")[0]) > last, "the run is the same: so are its numbers"
    robot.process.kill()
    robot.process.wait()
    wait_for(lambda: up not in tokens.now, "a dead one is not up")
    (robot.logs / "run.tlog").rename(robot.logs / "first.tlog")
    robot.process = robot.run()
    wait_for(lambda: up in tokens.now, "its next run is up")

    def parameters() -> object:
        fine, answer = ask(judge, robot.key("param"))
        assert not fine or json.loads(answer), "no parameters are known is not that there are none"
        return fine

    wait_for(parameters, "the bridge has found the view of the next run")


def dropped(port: int) -> int:
    """Datagrams to a port here for which the kernel had no room."""
    lines = pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]
    return sum(int(line.split()[-1]) for line in lines if line.split()[1].endswith(f":{port:04X}"))


def test_a_bridge_that_freezes(world: World) -> None:
    judge, robot, tokens, statuses = one_robot(world, "quad", template="quadruped", rate=500)
    runs_on(robot, statuses)
    before = status(statuses)

    robot.bridge.send_signal(signal.SIGSTOP)
    wait_for(lambda: not tokens.now, "bridge and robot are gone from the network")
    done = world.run("ls", code=1)
    assert "no robot can be seen" in done.stdout
    done = world.run("stop", "quad", "--timeout", "1", code=1)
    assert "quad: NOT STOPPED: no robot `quad` can be seen" in done.stdout
    wait_for(lambda: dropped(robot.stream) > 0, "there is no room for what the frozen bridge does not take")
    statuses.clear()
    robot.bridge.send_signal(signal.SIGCONT)
    wait_for(lambda: "khz/quad/@up" in tokens.now, "it is up again")
    runs_on(robot, statuses)
    wait_for(lambda: status(statuses)["received"]["lost"] > before["received"]["lost"], "what was lost is counted")  # type: ignore[index]
    assert status(statuses)["run"] == before["run"]

    # What was asked of a run while its bridge was frozen reaches no other run. Frozen for less than a lease, the bridge finds
    # the questions when it goes on.
    robot.bridge.send_signal(signal.SIGSTOP)
    run = before["run"]
    late = [judge.get(robot.key(f"stop?run={run};by=late"), timeout=60.0)]
    late.append(judge.get(robot.key(f"param?run={run};by=late"), payload='{"kp_scale": 0.5}', timeout=60.0))
    robot.process.kill()
    robot.process.wait()
    (robot.logs / "run.tlog").rename(robot.logs / "first.tlog")
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", robot.view)) != 0, "the view of the killed run has ended")
    robot.process = robot.run()
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", robot.view)) == 0, "the view of the next run")
    statuses.clear()
    robot.bridge.send_signal(signal.SIGCONT)
    wait_for(lambda: "khz/quad/@up" in tokens.now and status(statuses)["run"] != run, "the next run is up")
    runs_on(robot, statuses)
    assert not [reply for replies in late for reply in replies if reply.ok is not None]
    fine, answer = in_time(lambda: ask(judge, robot.key("param/kp_scale")), lambda answer: answer[1])
    assert fine and json.loads(answer)["value"] == 1.0
    world.run("stop", "--timeout", "100", "quad")
    robot.process.wait(PATIENCE)
    for log in ("first.tlog", "run.tlog"):
        events = subprocess.run(
            [world.khz, "log", "cat", str(robot.logs / log), "-r", "event", "-r", "parameter"], capture_output=True, text=True
        ).stdout  # fmt: skip
        assert "active" in events and "late" not in events, "the robot's loop noticed nothing, and was asked nothing"


def test_two_robots_of_one_name(world: World) -> None:
    _, first, tokens, statuses = one_robot(world, "leg")
    (bridge,) = (token for token in tokens.now if "@bridge" in token)
    second = world.robot("leg")
    assert second.bridge.wait(PATIENCE) == 2
    output = world.output("bridge-leg")
    assert "another bridge has the name leg" in output and "--name" in output
    # One that is busy is not up for a moment.
    wait_for(lambda: tokens.now == {"khz/leg/@up", bridge}, "the first keeps its name")
    runs_on(first, statuses)
    assert second.process.poll() is None, "the second runs on, but not on this network"


def test_two_robots_of_one_ros_name(world: World) -> None:
    judge, first, tokens, statuses = one_robot(world, "left-arm")
    graph = Tokens(judge, "@ros2_lv/**")
    second = world.robot("left_arm")
    assert second.bridge.wait(PATIENCE) == 2
    output = world.output("bridge-left_arm")
    assert "has the same name in ROS 2 as left_arm: left_arm" in output and "--domain" in output
    assert len({token.split("/")[2] for token in graph.now if "left_arm" in token}) == 1, "one node has the name"
    assert world.ls(" up ").count("left") == 1, "the second is not on this network"
    runs_on(first, statuses)
    # In another domain, or without topics for ROS 2, nothing is in the way.
    settings = world.folder / "bridge.toml"
    settings.write_text("[ros]\nenabled = false\n")
    others = Tokens(judge, second.key("@up"))
    for words in (["--domain", "7"], ["--config", str(settings)]):
        second.bridge = second.start_bridge(*words)
        wait_for(lambda: others.now, f"it is up with {words}")
        second.bridge.send_signal(signal.SIGTERM)
        assert second.bridge.wait(PATIENCE) == 0
        wait_for(lambda: not others.now, "it has left")


def frozen_reader(endpoint: str, ready: pathlib.Path) -> None:
    """Subscribes to everything, and stops itself."""
    config = {"mode": "client", "connect": {"endpoints": [endpoint]}, "scouting": {"multicast": {"enabled": False}}}
    session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
    session.declare_subscriber("**", lambda _: None)
    time.sleep(0.5)
    ready.write_text("")
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


def memory_kib(pid: int) -> int:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def test_a_reader_that_never_reads(world: World) -> None:
    judge, robot, _, statuses = one_robot(world, "quad", template="quadruped")
    router, samples = world.processes[0], Samples(judge, robot.key("servo"))
    samples.wait(10, "samples")
    ready = world.folder / "ready"
    reader = multiprocessing.get_context("spawn").Process(target=frozen_reader, args=(world.endpoint, ready))
    reader.start()
    try:
        wait_for(ready.exists, "the reader is there")
        before = {process.pid: memory_kib(process.pid) for process in (router, robot.bridge)}
        first = len(samples.all())
        wait_for(lambda: len(samples.all()) > first + 400, "others go on")
        numbers = [number(sample) for sample in samples.all()]
        missing = numbers[-1] - numbers[0] + 1 - len(numbers)
        assert missing >= 0 and len(set(numbers)) == len(numbers)
        runs_on(robot, statuses)
        for pid, kib in before.items():
            assert memory_kib(pid) < kib + 64 * 1024, "what the reader does not take is not kept"
    finally:
        if reader.pid:
            os.kill(reader.pid, signal.SIGKILL)
        reader.join()


def test_everything_lost_is_counted(world: World) -> None:
    """Datagrams as the recorder sends them (docs/log-format.md), with gaps and nonsense."""
    world.router()
    judge = world.judge()
    port, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    port.bind(("127.0.0.1", 0))
    other.bind(("127.0.0.1", 0))
    to = ("127.0.0.1", free_port(socket.SOCK_DGRAM))
    world.start(
        world.fleet, "--router", world.endpoint, "bridge", "--name", "made-up", "--listen", f"127.0.0.1:{to[1]}",
        name="bridge",
    )  # fmt: skip
    statuses = Samples(judge, "khz/made-up/@status")
    samples = Samples(judge, "khz/made-up/battery")
    statuses.wait(1, "the bridge is there")

    def datagram(at: int, *messages: bytes) -> bytes:
        return b"KLOG\x01" + struct.pack("<QQ", 7, at) + b"".join(messages)

    def sample(record: int, volts: float, time_us: int) -> bytes:
        return bytes([2, record]) + struct.pack("<qB", time_us, 8) + struct.pack("<d", volts)

    # An object (16) of one field, `volts`, a float64 (8).
    schema = bytes([16, 0, 0, 5]) + b"volts" + bytes([0, 8, 0]) + bytes(5)
    announced = bytes([1, 3, 7]) + b"battery" + bytes([len(schema)]) + schema
    port.sendto(datagram(0, announced, sample(3, 24.0, 0)), to)
    wait_for(lambda: samples.all(), "the first sample")
    for at in (1, 2, 5, 9):
        port.sendto(datagram(at, sample(3, 24.0 - at, 1_000_000 * at)), to)
    port.sendto(datagram(10, sample(4, 1.0, 0)), to)
    port.sendto(datagram(11, b"\x02\x03" + bytes(8) + b"\x01\x00"), to)
    port.sendto(b"nonsense", to)
    other.sendto(b"nonsense", to)
    other.sendto(datagram(12, sample(3, 1.0, 0)), to)
    counted = {"samples": 5, "lost": 5, "behind": 0, "refused": 3, "others": 2}
    wait_for(lambda: status(statuses)["received"] == counted, f"the counts {counted}")
    assert len(samples.wait(5, "five samples")) == 5
    for one in (port, other):
        one.close()
