"""Robots, bridges and a router as processes of their own, and PyPI's eclipse-zenoh as the judge."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import zenoh
from robots import free_port, lenient

T = TypeVar("T")
ROOT = pathlib.Path(__file__).resolve().parents[2]

# Nothing here is asserted to be fast: this is how long a test waits before it gives up.
PATIENCE = 120.0


def wait_for(what: Callable[[], T], why: str | Callable[[], str], patience: float = PATIENCE) -> T:
    """Asks until the answer is one."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if answer := what():
            return answer
        time.sleep(0.02)
    pytest.fail(f"waited {patience} s for this: {why() if callable(why) else why}")


@pytest.fixture(scope="session")
def fleet() -> str:
    """Path of `khz-fleet`: $KHZ_FLEET, or what `cargo build` made in `fleet/`."""
    path = pathlib.Path(os.environ.get("KHZ_FLEET", ROOT / "fleet/target/debug/khz-fleet"))
    if not path.is_file():
        pytest.fail(f"{path} is not there: run `cargo build` in fleet/, or set KHZ_FLEET")
    return str(path)


@dataclass
class World:
    """The processes of a test, ended with it."""

    khz: str
    fleet: str
    folder: pathlib.Path
    endpoint: str = field(default_factory=lambda: f"tcp/127.0.0.1:{free_port()}")
    # Whether the endpoint is on another network than this computer's own.
    is_open: bool = False
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    sessions: list[zenoh.Session] = field(default_factory=list)

    def start(self, *words: str, name: str, cwd: pathlib.Path | None = None) -> subprocess.Popen[str]:
        """Starts a program; its output is in NAME.out."""
        with open(self.folder / f"{name}.out", "a") as out:
            process = subprocess.Popen(
                words,
                cwd=cwd or self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                text=True,
                env=os.environ | {"KHZ": self.khz},
            )
        self.processes.append(process)
        return process

    def program(self) -> list[str]:
        """`khz-fleet` on this world's network."""
        return [self.fleet, "--router", self.endpoint, *(["--open"] if self.is_open else [])]

    def output(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def router(self, *more: str) -> subprocess.Popen[str]:
        process = self.start(*self.program(), *more, "router", name="router")
        host, port = self.endpoint.split("/")[1].rsplit(":", 1)

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        wait_for(listens, "the router listens")
        return process

    def run(self, *words: str, code: int | None = 0, **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs `khz-fleet` to its end."""
        done = subprocess.run(
            [*self.program(), *words],
            cwd=self.folder,
            env=os.environ | {"XDG_STATE_HOME": str(self.folder)} | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def asked(self, *words: str, code: int = 0, **env: str) -> "subprocess.CompletedProcess[str]":
        """Runs `khz-fleet` until its question is answered in time."""
        done = in_time(lambda: self.run(*words, code=None, **env), lambda done: done.stdout + done.stderr)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def listed(self) -> dict[str, dict[str, Any]]:
        """What `khz-fleet ls` knows of each robot that has answered it within a second."""
        return {robot["name"]: robot for robot in json.loads(self.run("ls", "--json", code=None).stdout)}

    def has_ended(self, name: str) -> bool:
        """Whether `khz-fleet ls` knows that the robot's run has ended."""
        robot = self.listed().get(name, {})
        return "ended" in robot.get("state", "") and not robot["up"]

    def ls(self, *signs: str, code: int | None = None) -> str:
        """The table of `khz-fleet ls` once it has all of these: it waits for each bridge for a second, in which a busy one may not
        answer."""

        def table() -> str | None:
            done = self.run("ls", code=None)
            has_all = all(sign in done.stdout for sign in signs) and code in (None, done.returncode)
            return done.stdout if has_all else None

        return wait_for(table, f"ls says {signs}")

    def judge(self, **more: Any) -> zenoh.Session:
        config = {
            "mode": "client",
            "connect": {"endpoints": [self.endpoint], "timeout_ms": 120_000},
            "scouting": {"multicast": {"enabled": False}},
        } | more
        session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
        self.sessions.append(session)
        return session

    def robot(self, name: str, template: str = "leg3", **more: Any) -> "Robot":
        return Robot(self, name, template, **more)

    def end(self) -> None:
        for session in self.sessions:
            session.close()
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


class Robot:
    """An emulated robot and its bridge."""

    def __init__(
        self, world: World, name: str, template: str, rate: int = 200, within: Sequence[str] = (), **more: str
    ) -> None:
        """`within` is what both commands begin with, to run elsewhere."""
        self.world, self.name, self.within = world, name, within
        self.stream, self.view = free_port(socket.SOCK_DGRAM), free_port()
        self.logs = world.folder / f"logs-{name}-{self.stream}"
        self.logs.mkdir()
        text = (ROOT / "robots" / f"{template}.toml").read_text()
        text = re.sub(r'^name = ".*"$', f'name = "{name}"', text, count=1, flags=re.M)
        text = re.sub(r"^rate_hz = .*$", f"rate_hz = {rate}", text, count=1, flags=re.M)
        # At these rates there is time for a watchdog of more than 1.27 s, too.
        text = text.replace('watchdog = "int8"', 'watchdog = "int16"')
        for old, new in more.items():
            text = text.replace(old, new)
        self.file = world.folder / f"{name}-{self.stream}.toml"
        self.file.write_text(lenient(text))
        self.process = self.run()
        self.bridge = self.start_bridge()

    def run(self) -> subprocess.Popen[str]:
        at = f"127.0.0.1:{self.stream}"
        return self.world.start(
            *self.within, self.world.khz, "run", str(self.file), "--no-report", "--duration", "3600s", "--log", "run.tlog",
            "--stream", at, f"--view=127.0.0.1:{self.view}", name=f"robot-{self.name}", cwd=self.logs,
        )  # fmt: skip

    def start_bridge(self, *more: str) -> subprocess.Popen[str]:
        return self.world.start(
            *self.within, *self.world.program(), "bridge", "--name", self.name,
            "--listen", f"127.0.0.1:{self.stream}", "--view", f"127.0.0.1:{self.view}", "--logs", str(self.logs), *more,
            name=f"bridge-{self.name}",
        )  # fmt: skip

    def key(self, rest: str) -> str:
        return f"khz/{self.name}/{rest}"


class Samples:
    """Everything that comes at a key expression."""

    def __init__(self, session: zenoh.Session, key: str) -> None:
        self.samples: list[zenoh.Sample] = []
        self.lock = threading.Lock()
        self.subscriber = session.declare_subscriber(key, self.take)

    def take(self, sample: zenoh.Sample) -> None:
        with self.lock:
            self.samples.append(sample)

    def all(self) -> list[zenoh.Sample]:
        with self.lock:
            return list(self.samples)

    def wait(self, count: int, why: str) -> list[zenoh.Sample]:
        return wait_for(lambda: (got := self.all()) and len(got) >= count and got, why)

    def clear(self) -> None:
        with self.lock:
            self.samples.clear()


class Repeated:
    """Sends a value 20 times a second, until its end or that of the test."""

    def __init__(self, session: zenoh.Session, key: str, value: Callable[[], object]) -> None:
        self.session, self.key, self.value = session, key, value
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.repeat, daemon=True)
        self.thread.start()

    def repeat(self) -> None:
        while not self.over.wait(0.05):
            self.session.put(self.key, json.dumps(self.value()))

    def end(self) -> None:
        self.over.set()
        self.thread.join()


class Tokens:
    """Which liveliness tokens there are."""

    def __init__(self, session: zenoh.Session, *keys: str) -> None:
        self.now: set[str] = set()
        watch = session.liveliness().declare_subscriber
        self.subscribers = [watch(key, self.take, history=True) for key in keys]

    def take(self, sample: zenoh.Sample) -> None:
        if sample.kind == zenoh.SampleKind.PUT:
            self.now = self.now | {str(sample.key_expr)}
        else:
            self.now = self.now - {str(sample.key_expr)}


def ask(session: zenoh.Session, key: str, payload: object = None) -> tuple[bool, bytes]:
    """One answer, and whether it is not a refusal. A busy bridge may be off the network for a moment, in which a question has no answer."""
    body = None if payload is None else json.dumps(payload)
    reply, *_ = wait_for(lambda: list(session.get(key, payload=body, timeout=PATIENCE)), f"an answer at {key}")
    if reply.ok is not None:
        return True, bytes(reply.ok.payload)
    return False, bytes(reply.err.payload)


# What bridges and commands print when a question or the answer to it came too late, or while a busy bridge had lost its router.
LATE = (
    "ask again", "unreachable", "does not reach it", "no reply in time", "no reply from its bridge", "no answer; is the robot",
    "can be seen on the network",
)  # fmt: skip


def in_time(what: Callable[[], T], text: Callable[[T], object]) -> T:
    """Asks, as long as the answer is that the question, or the answer to it, came too late: this computer may be busy."""

    def late(answer: T) -> bool:
        return any(sign in str(text(answer)) for sign in LATE)

    return wait_for(lambda: not late(answer := what()) and answer, "an answer comes in time")


def number(sample: zenoh.Sample) -> int:
    """The sample's number, from its attachment."""
    assert sample.attachment is not None
    return int.from_bytes(bytes(sample.attachment)[:8], "little")


@pytest.fixture
def world(khz: str, fleet: str, tmp_path: pathlib.Path) -> Iterator[World]:
    world = World(khz, fleet, tmp_path)
    yield world
    world.end()
    # pytest shows this of a test that failed.
    for out in sorted(tmp_path.glob("*.out")):
        print(f"{out.name}:", *out.read_text(errors="replace").splitlines()[-8:], sep="\n  ")
