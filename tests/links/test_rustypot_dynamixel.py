"""rustypot, unmodified, drives emulated Dynamixel servos at a pseudo terminal: a codec of its own, which checks the CRC of every block."""

import pathlib
import time
from collections.abc import Iterator

import pytest
import rustypot
from emulated import served
from test_dynamixel_sdk import ARM, IDS

STATE, POSITION = 126, 132


@pytest.fixture
def arm(khz: str, tmp_path: pathlib.Path) -> Iterator[rustypot.Xl330PyController]:
    with served(khz, tmp_path, ARM, "terminal") as path:
        # Its answer may take as long as a busy machine needs.
        yield rustypot.Xl330PyController(path, 1_000_000, 5.0)


def test_the_registers_of_one(arm: rustypot.Xl330PyController) -> None:
    assert arm.ping(1) and arm.read_model_number(1) == [1200]
    # A current of -1 before a velocity of 253 is a lead-in: what it writes is stuffed, and so is what it reads.
    stuffed = bytes.fromhex("fffffd000000")
    arm.write_raw_data(2, 102, list(stuffed))
    assert bytes(arm.read_raw_data(2, 102, 6)) == stuffed


@pytest.mark.parametrize("fast", [False, True])
def test_goals_and_states_of_all(arm: rustypot.Xl330PyController, fast: bool) -> None:
    arm.set_fast_sync_read(fast)
    arm.sync_write_torque_enable(IDS, [True] * len(IDS))
    goals = [0.1 * servo for servo in IDS]
    arm.sync_write_goal_position(IDS, goals)
    deadline = time.monotonic() + 60
    while max(abs(at - goal) for at, goal in zip(arm.sync_read_present_position(IDS), goals, strict=True)) > 0.05:
        assert time.monotonic() < deadline
    states = arm.sync_read_raw_data(IDS, STATE, 10)
    assert [len(state) for state in states] == [10] * len(IDS)
    assert [int.from_bytes(bytes(state[POSITION - STATE :]), "little") for state in states] == pytest.approx(
        [2048 + goal / 0.00153398 for goal in goals], abs=40
    )
