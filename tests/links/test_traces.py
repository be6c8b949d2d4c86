"""Traces of `khz bus record`, judged by python-can (candump text) and tshark (pcapng)."""

import dataclasses
import json
import os
import pathlib
import subprocess
import termios
import time
import tty
from typing import Any

import can
import pytest


@dataclasses.dataclass(frozen=True)
class Frame:
    """What a judge has to read."""

    id: int
    extended: bool
    fd: bool
    brs: bool
    data: bytes


FRAMES = [
    Frame(0x100, False, True, True, bytes.fromhex("21000a2f01")),
    Frame(0x18ABC123, True, True, False, bytes(range(64))),
    Frame(0x7FF, False, False, False, bytes(8)),
    Frame(0x123, True, True, True, bytes(12)),
]


def line(frame: Frame) -> bytes:
    """The frame as an adapter with checksums reports it."""
    flags = f"{'E' if frame.extended else 'e'} {'B' if frame.brs else 'b'} {'F' if frame.fd else 'f'}"
    text = f"rcv {frame.id:08x} {frame.data.hex()} {flags} ".encode()
    return text + f"*{crc8(text):02X}\r\n".encode()


def crc8(text: bytes) -> int:
    """Polynomial 0x97, as mjbots/fdcanusb has it."""
    crc = 0
    for bit in (byte >> shift & 1 for byte in text for shift in range(7, -1, -1)):
        crc = (crc << 1 & 0xFF) ^ (0x97 if (crc >> 7) ^ bit else 0)
    return crc


def is_raw(terminal: int) -> bool:
    return not termios.tcgetattr(terminal)[tty.LFLAG] & termios.ICANON


@pytest.fixture(params=["trace.log", "trace.pcapng"])
def trace(request: pytest.FixtureRequest, khz: str, tmp_path: pathlib.Path) -> pathlib.Path:
    """What `khz bus record` made of FRAMES."""
    path = tmp_path / request.param
    adapter, terminal = os.openpty()
    words = [khz, "bus", "record", f"fdcanusb:{os.ttyname(terminal)}", "--output", str(path), "--duration", "3s"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        # Before khz has set the terminal up, it throws away what was written.
        while not is_raw(terminal) and process.poll() is None:
            time.sleep(0.01)
        for frame in FRAMES:
            os.write(adapter, line(frame))
        output, _ = process.communicate(timeout=60)
    os.close(adapter)
    os.close(terminal)
    assert output == f"{len(FRAMES)} frames\n"
    return path


def test_judges_read_the_frames(trace: pathlib.Path) -> None:
    read = by_tshark(trace) if trace.suffix == ".pcapng" else by_python_can(trace)
    assert [frame for _, frame in read] == FRAMES
    times = [at for at, _ in read]
    assert times == sorted(times)
    # Wall clock: within a day of now is near enough to distinguish it from any other clock.
    assert all(abs(at - time.time()) < 86_400 for at in times)


def by_python_can(path: pathlib.Path) -> list[tuple[float, Frame]]:
    def frame(message: can.Message) -> Frame:
        assert message.is_rx and message.channel == "bus1"
        return Frame(
            message.arbitration_id,
            message.is_extended_id,
            message.is_fd,
            message.bitrate_switch,
            bytes(message.data),
        )

    with can.CanutilsLogReader(path) as reader:
        return [(message.timestamp, frame(message)) for message in reader]


def by_tshark(path: pathlib.Path) -> list[tuple[float, Frame]]:
    def read(layers: dict[str, dict[str, Any]]) -> tuple[float, Frame]:
        outer, fd = layers["frame"], "canfd" in layers
        inner = layers["canfd" if fd else "can"]
        assert outer["frame_frame_interface_name"] == "bus1"
        received = 1
        assert int(outer["frame_frame_packet_flags_direction"], 0) == received
        return float(outer["frame_frame_time_epoch"]), Frame(
            int(inner["can_can_id"]),
            inner["can_can_flags_xtd"],
            fd,
            inner.get("can_canfd_flags_brs", False),
            bytes.fromhex(layers["data"]["data_data_data"].replace(":", "")),
        )

    words = ["tshark", "-r", str(path), "-T", "ek"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    packets = [json.loads(line) for line in text.splitlines() if '"layers"' in line]
    return [read(packet["layers"]) for packet in packets]
