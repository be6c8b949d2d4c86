"""python-can, unmodified, meets emulated servos behind an emulated slcan adapter; and our link meets the same adapter."""

import pathlib
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager

import can
import emulated
import pytest

ARM = """
[bus.main]
link = "slcan"
path = "{path}"
data_bit_rate = 5000000

[servo_defaults]
bus = "main"
family = "damiao"
damiao = {{ model = "4310", can_fd = {can_fd} }}
limits = {{ position = [-1.5, 1.5], velocity = 3 }}

[[servo]]
name = "hip"
id = 1

[[servo]]
name = "knee"
id = 2
"""

ENABLE, DISABLE = bytes([255] * 7 + [0xFC]), bytes([255] * 7 + [0xFD])
HOLD = bytes.fromhex("7FFF7FF0003337FF")


def served(khz: str, folder: pathlib.Path, answers: str, can_fd: bool = False) -> AbstractContextManager[str]:
    """The terminal at which two Damiao servos are behind an adapter."""
    return emulated.served(khz, folder, ARM.format(path="/dev/null", can_fd=str(can_fd).lower()), answers)


def exchange(bus: can.BusABC, data: bytes, **flags: bool) -> can.Message:
    bus.send(can.Message(arbitration_id=1, data=data, is_extended_id=False, **flags))
    reply = bus.recv(60.0)
    assert reply is not None, "no reply"
    return reply


@pytest.mark.parametrize("answers", ["slcan:", "slcan:canable"])
def test_python_can_enables_holds_and_disables_a_servo(khz: str, tmp_path: pathlib.Path, answers: str) -> None:
    with served(khz, tmp_path, answers) as path:
        with can.Bus(interface="slcan", channel=path, bitrate=1_000_000, sleep_after_open=0.05) as bus:
            for data in (ENABLE, HOLD):
                reply = exchange(bus, data)
                # Motor 1 is enabled; where it is.
                assert (reply.dlc, reply.data[0], reply.is_fd) == (8, 0x11, False)
            assert exchange(bus, DISABLE).data[0] == 0x01


def test_python_can_speaks_can_fd(khz: str, tmp_path: pathlib.Path) -> None:
    timing = can.BitTimingFd.from_sample_point(
        f_clock=80_000_000,
        nom_bitrate=1_000_000,
        nom_sample_point=75,
        data_bitrate=5_000_000,
        data_sample_point=75,
    )
    with served(khz, tmp_path, "slcan:", can_fd=True) as path:
        with can.Bus(interface="slcan", channel=path, timing=timing, sleep_after_open=0.05) as bus:
            reply = exchange(bus, ENABLE, is_fd=True, bitrate_switch=True)
            assert (reply.data[0], reply.is_fd) == (0x11, True)


def test_an_adapter_at_another_bit_rate_is_mute(khz: str, tmp_path: pathlib.Path) -> None:
    with served(khz, tmp_path, "slcan:") as path:
        with can.Bus(interface="slcan", channel=path, bitrate=500_000, sleep_after_open=0.05) as bus:
            bus.send(can.Message(arbitration_id=1, data=ENABLE, is_extended_id=False))
            assert bus.recv(0.2) is None


@pytest.mark.parametrize("answers", ["slcan:", "slcan:canable"])
def test_our_link_finds_the_servos_behind_the_adapter(
    khz: str, tmp_path: pathlib.Path, run_khz: Callable[..., "subprocess.CompletedProcess[str]"], answers: str
) -> None:
    with served(khz, tmp_path, answers) as path:
        (tmp_path / "real.toml").write_text(ARM.format(path=path, can_fd="false"))
        found = run_khz("bus", "scan", "real.toml", "--json", "--last", "2", "--timeout-ms", "10000")
        assert found.returncode == 0, found.stderr
        assert found.stdout.count('"id"') == 2, found.stdout
