"""Files that python-can writes, sent again by `khz bus replay`: what an slcan adapter gets is compared with them frame for frame."""

import os
import pathlib
import subprocess
import sys
import tty
from collections.abc import Iterable

import can
import pytest

REMOTE = can.Message(timestamp=100.001, arbitration_id=0x009, is_extended_id=False, is_remote_frame=True, dlc=8)
# candump text of python-can does not have how many bytes it asks for.
BARE = can.Message(timestamp=100.001, arbitration_id=0x009, is_extended_id=False, is_remote_frame=True)
ERROR = can.Message(timestamp=100.003, is_error_frame=True)
CLASSIC = [
    can.Message(timestamp=100.0, arbitration_id=0x123, is_extended_id=False, data=[1, 255]),
    can.Message(timestamp=100.002, arbitration_id=0x18ABC123, is_extended_id=True, data=range(8)),
    can.Message(timestamp=100.0025, arbitration_id=0x7FF, is_extended_id=False, data=[], is_rx=False),
]
LONG = can.Message(
    timestamp=100.004, arbitration_id=0x1ABCDEF, is_extended_id=True, data=range(12), is_fd=True, bitrate_switch=True
)
SHORT_FD = can.Message(timestamp=100.005, arbitration_id=0x321, is_extended_id=False, data=[7], is_fd=True)

# What each format can hold, as python-can writes it.
HELD = {
    "log": [*CLASSIC, BARE, ERROR, LONG, SHORT_FD],
    "asc": [*CLASSIC, REMOTE, ERROR, LONG, SHORT_FD],
    "csv": [*CLASSIC, REMOTE, ERROR, LONG],
    "trc": CLASSIC,
}


def line(message: can.Message) -> str:
    """The frame as an slcan adapter has it."""
    identifier = f"{message.arbitration_id:08X}" if message.is_extended_id else f"{message.arbitration_id:03X}"
    kind = ("r" if message.is_remote_frame else "t") if not message.is_fd else "b" if message.bitrate_switch else "d"
    code = f"{can.util.len2dlc(message.dlc):X}"
    return (kind.upper() if message.is_extended_id else kind) + identifier + code + message.data.hex().upper()


def written(folder: pathlib.Path, suffix: str, messages: Iterable[can.Message]) -> pathlib.Path:
    path = folder / f"trace.{suffix}"
    with can.Logger(path) as logger:
        for message in messages:
            logger.on_message_received(message)
    return path


def replayed(khz: str, trace: pathlib.Path) -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """What an adapter was sent beside its own commands, and what khz reported."""
    adapter, terminal = os.openpty()
    tty.setraw(terminal)
    words = [khz, "bus", "replay", str(trace), "--all", "--link", f"slcan:{os.ttyname(terminal)},data=5000000"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    os.set_blocking(adapter, False)
    output = b""
    try:
        while part := os.read(adapter, 4096):
            output += part
    except OSError:
        pass
    os.close(adapter)
    os.close(terminal)
    return [word for word in output.decode().split("\r") if word[:1] in tuple("tTrRdDbB")], done


@pytest.mark.parametrize("suffix", HELD)
def test_each_frame_is_as_python_can_wrote_it(khz: str, tmp_path: pathlib.Path, suffix: str) -> None:
    messages = sorted(HELD[suffix], key=lambda message: message.timestamp)
    sent, done = replayed(khz, written(tmp_path, suffix, messages))
    assert sent == [line(message) for message in messages if not message.is_error_frame]
    assert (done.returncode, done.stdout) == (0, f"{len(sent)} frames sent, 0 refused\n")
    errors = sum(message.is_error_frame for message in messages)
    assert ("error frames of the trace are none" in done.stderr) == (errors > 0), done.stderr


def test_what_is_not_read_is_named_with_what_is(khz: str, tmp_path: pathlib.Path) -> None:
    sent, done = replayed(khz, written(tmp_path, "blf", CLASSIC))
    assert not sent and done.returncode == 2
    assert ".blf files are not read here" in done.stderr and "can_logconvert" in done.stderr
    # Which then does.
    converted = tmp_path / "converted.asc"
    subprocess.run([sys.executable, "-m", "can.logconvert", str(tmp_path / "trace.blf"), str(converted)], check=True)
    sent, done = replayed(khz, converted)
    assert sent == [line(message) for message in CLASSIC], done.stderr
