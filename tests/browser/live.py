"""A robot for the live view: it sends records as a recorder does, and answers what it is asked."""

import contextlib
import json
import math
import pathlib
import random
import select
import socket
import struct
import subprocess
import threading
import time

SCALARS = {"bool": b"\x02", "i64": b"\x03\x08", "u32": b"\x04\x04", "u64": b"\x04\x08", "f32": b"\x07", "f64": b"\x08", "text": b"\x0a"}
PACKED = {"bool": "<?", "i64": "<q", "u32": "<I", "u64": "<Q", "f32": "<f", "f64": "<d"}


def varuint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def counted(data: bytes) -> bytes:
    return varuint(len(data)) + data


def schema(kind: object) -> bytes:
    """A scalar's name, a dict of fields, a list of an item and its number, or a tuple of an enum's names."""
    if isinstance(kind, str):
        return SCALARS[kind]
    if isinstance(kind, list):
        return b"\x13" + varuint(kind[1]) + schema(kind[0])
    if isinstance(kind, tuple):
        names = b"".join(varuint(i) + counted(name.encode()) for i, name in enumerate(kind))
        return b"\x11\x06" + varuint(len(kind)) + names
    fields = b"".join(b"\x00" + counted(name.encode()) + b"\x00" + schema(of) + b"\x00" for name, of in kind.items())
    return b"\x10\x00" + fields + bytes(5)


def pack(kind: object, value: object) -> bytes:
    if kind == "text":
        return counted(str(value).encode())
    if isinstance(kind, str):
        return struct.pack(PACKED[kind], value)
    if isinstance(kind, list):
        return b"".join(pack(kind[0], item) for item in value)
    if isinstance(kind, tuple):
        return varuint(kind.index(value))
    return b"".join(pack(of, value[name]) for name, of in kind.items())


TICK = {
    **{name: "i64" for name in ["number", "planned_ns", "waited_for_ns", "started_ns", "wake_latency_ns", "encode_ns", "send_ns",
                                "collect_ns", "imu_ns", "decide_ns", "control_ns", "cycle_ns", "queued_before_ns"]},
    "skipped": "u32", "missed": "u32", "overrun": "bool", "controlled": "bool",
    "cause": ("none", "unaccounted", "preempted"), "phase": ("init", "idle", "armed", "active", "damping", "stopped", "fault"),
}
SERVO = {"position": "f32", "torque": "f32", "temperature": "f32"}
COMMAND = {"position": "f32"}
EVENT = {"tick": "u64", "from": "text", "to": "text", "cause": "text", "servo": "text", "trouble": "bool"}
CHANGE = {"tick": "u64", "name": "text", "value": "f64", "before": "f64", "by": "text"}
ROBOT = {"name": "text", "file": "text", "passport": "text", "clock": "text", "skeleton": "text"}
TELEOP = {"tick": "u64", **{name: "f32" for name in ["forward", "left", "turn", "height", "roll", "pitch"]}, "age_us": "u32", "by": "text"}
AIM = {"target": "f32", "offset": "f32", "reference": "f32"}
IMU = {"attitude": ["f32", 4], "rate": ["f32", 3]}

PARAMETERS = [
    {"name": "kp_scale", "type": "float", "unit": "", "min": 0, "max": 2, "default": 1, "text": "Stiffness.", "value": 1},
    {"name": "steps", "type": "integer", "unit": "1/s", "min": 1, "max": 9, "default": 2, "text": "Steps per second.", "value": 2},
    {"name": "swing", "type": "boolean", "unit": "", "default": False, "text": "Lift the feet.", "value": False},
]


class Robot:
    """A robot with these joints, behind `khz view`. Its samples come at 1 kHz from when `run` is called."""

    def __init__(self, khz: str, joints: list[str], name: str = "spot", teleop: bool = True, phase: str = "active",
                 skeleton: str = "", targets: bool = False) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.viewer = subprocess.Popen([khz, "view", "--socket", "--at", "127.0.0.1:0"], stdin=theirs, stdout=subprocess.PIPE, text=True)
        theirs.close()
        self.link = self.viewer.stdout.readline().strip()
        self.name, self.tick = name, 0
        self.skeleton = skeleton
        self.start_us = int(time.time() * 1e6)
        self.joints, self.phase = joints, phase
        # Torques of a single sample, by tick; ticks that are late; what was asked.
        self.spikes: dict[int, float] = {}
        self.late: set[int] = set()
        self.asked: list[dict] = []
        self.takes_inputs = False
        # What a fleet puts behind a viewer's name.
        self.way = ""
        self.values = {parameter["name"]: parameter["value"] for parameter in PARAMETERS}
        self.answers = True
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.kinds = {"tick": TICK, "servo": {joint: SERVO for joint in joints}, "command": {joint: COMMAND for joint in joints},
                      "event": EVENT, "robot": ROBOT, "parameters": {"text": "text"}, "parameter": CHANGE, "imu": IMU}
        if teleop:
            self.kinds["teleop"] = TELEOP
        if targets:
            self.kinds["aim"] = {joint: AIM for joint in joints}
        self.records = list(self.kinds)
        self.begin()

    def begin(self) -> None:
        """Another run: a session with its schemas, and what is sent once."""
        with self.lock:
            self.session, self.number = random.getrandbits(53), 0
            schemas = [(record, schema(self.kinds[record])) for record in self.records]
            self.send(*[b"\x01" + varuint(i) + counted(record.encode()) + counted(of) for i, (record, of) in enumerate(schemas)])
        self.put("robot", {"name": self.name, "file": f"name = \"{self.name}\"\n", "passport": "{}", "clock": "real",
                           "skeleton": self.skeleton})
        self.put("parameters", {"text": json.dumps(PARAMETERS)})
        self.put("event", {"tick": 0, "from": "armed", "to": "active", "cause": "controller started", "servo": "", "trouble": False})

    def send(self, *messages: bytes) -> None:
        head = b"KLOG\x01" + struct.pack("<QQ", self.session, self.number)
        self.number += 1
        self.socket.send(head + b"".join(messages))

    def message(self, record: str, value: object) -> bytes:
        at_us = self.start_us + self.tick * 1000
        return b"\x02" + varuint(self.records.index(record)) + struct.pack("<q", at_us) + counted(pack(self.kinds[record], value))

    def put(self, record: str, value: object) -> None:
        with self.lock:
            self.send(self.message(record, value))

    def one_tick(self) -> list[bytes]:
        n, s = self.tick, self.tick / 1000
        planned, wake = n * 1_000_000, 700_000 if n in self.late else 5_000 + n % 7 * 300
        tick = {"number": n, "planned_ns": planned, "waited_for_ns": planned, "started_ns": planned + wake, "wake_latency_ns": wake,
                "encode_ns": 12_000, "send_ns": 30_000, "collect_ns": 400_000 + n % 11 * 1000, "imu_ns": 0, "decide_ns": 40_000,
                "control_ns": 25_000, "cycle_ns": 442_000 + n % 11 * 1000,
                # A late tick waited for its CPU: its cause follows from this reading, as with a real robot.
                "queued_before_ns": wake if n in self.late else 0, "skipped": 0, "missed": 0, "overrun": n in self.late,
                "controlled": True, "cause": "preempted" if n in self.late else "none", "phase": self.phase}
        command = {joint: {"position": math.sin(2 * s + i) * self.values["kp_scale"]} for i, joint in enumerate(self.joints)}
        servo = {joint: {"position": command[joint]["position"] * 0.97, "torque": self.spikes.get(n, 0.3 * math.sin(9 * s + i)),
                         "temperature": 30 + i} for i, joint in enumerate(self.joints)}
        roll = 0.2 * math.sin(s)
        imu = {"attitude": [math.cos(roll / 2), math.sin(roll / 2), 0, 0], "rate": [0.2 * math.cos(s), 0, 0.01]}
        made = [self.message("tick", tick), self.message("servo", servo), self.message("command", command), self.message("imu", imu)]
        if "aim" in self.kinds:
            to = {joint: command[joint]["position"] for joint in self.joints}
            aim = {joint: {"target": to[joint] - 0.2, "offset": 0.2, "reference": to[joint]} for joint in self.joints}
            made.append(self.message("aim", aim))
        self.tick += 1
        return made

    def run(self) -> None:
        self.driver = threading.Thread(target=self.drive, daemon=True)
        self.driver.start()

    def drive(self) -> None:
        with contextlib.suppress(OSError):  # The viewer is gone.
            self.tick_on()

    def tick_on(self) -> None:
        started, first = time.monotonic(), self.tick
        while not self.over.is_set():
            due = first + int((time.monotonic() - started) * 1000)
            for _ in range(min(200, due - self.tick)):
                with self.lock:
                    self.send(*self.one_tick())
            self.receive()
            time.sleep(0.004)

    def receive(self) -> None:
        while select.select([self.socket], [], [], 0)[0]:
            data = self.socket.recv(65536)
            if not data:
                return
            asked = json.loads(data)
            self.asked.append({**asked, "at": time.monotonic()})
            if "teleop" in asked and self.takes_inputs:
                self.steered(asked["teleop"]["forward"], asked["by"] + self.way)
            if "id" in asked and self.answers:
                with self.lock:
                    self.socket.send(json.dumps({"id": asked["id"], **self.answer(asked)}).encode())

    def answer(self, asked: dict) -> dict:
        for name, value in asked.get("set", {}).items():
            parameter = {known["name"]: known for known in PARAMETERS}[name]
            low, high = parameter.get("min", -math.inf), parameter.get("max", math.inf)
            if not low <= value <= high:
                return {"refused": f"{name}: {value} is outside {low} to {high}"}
            change = {"tick": self.tick, "name": name, "value": value, "before": self.values[name], "by": asked["by"]}
            self.values[name] = value
            self.send(self.message("parameter", change))
        if asked.get("do") == "stop":
            self.phase = "damping"
        if asked.get("do") == "arm":
            self.phase = "active"
        return {"done": True, "tick": self.tick}

    def steered(self, forward: float, by: str) -> None:
        """A tick has taken this input."""
        still = {name: 0.0 for name in ["left", "turn", "height", "roll", "pitch"]}
        self.put("teleop", {**still, "tick": self.tick, "forward": forward, "age_us": 1000, "by": by})

    def did(self, what: str) -> list[dict]:
        """What was asked of this kind: `set`, `teleop`, `stop` or `arm`."""
        return [asked for asked in list(self.asked) if what in asked or asked.get("do") == what]

    def pause(self) -> None:
        """Sends nothing any more; the viewer goes on."""
        self.over.set()
        self.driver.join()

    def end(self) -> None:
        """The run is over."""
        self.pause()
        self.send()

    def close(self) -> None:
        self.over.set()
        self.viewer.kill()
        self.viewer.wait()
        self.socket.close()


def write_log(khz: str, folder: pathlib.Path) -> pathlib.Path:
    """The log of a short run in virtual time."""
    path = folder / "run.tlog"
    command = [khz, "run", "--virtual", "--duration", "5s", "--log", str(path)]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path
