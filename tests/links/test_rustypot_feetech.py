"""rustypot, unmodified, drives emulated Feetech servos at a pseudo terminal."""

import math
import pathlib
import time

import pytest
from emulated import served
from rustypot import Sts3215PyController
from test_feetech_sdk import ARM, IDS

# Seconds, which a busy machine may need for a reply.
TIMEOUT = 5.0


def test_it_finds_and_moves_them(khz: str, tmp_path: pathlib.Path) -> None:
    with served(khz, tmp_path, ARM, "terminal") as path:
        arm = Sts3215PyController(path, 1_000_000, TIMEOUT)
        end = time.monotonic() + 60
        # It waits 5 ms for each, whatever was set.
        while (found := arm.scan(IDS)) != dict.fromkeys(IDS, 777):
            assert time.monotonic() < end, found
        assert arm.read_register(1, "present_voltage") == 74
        for servo in IDS:
            arm.write_torque_enable(servo, True)
        goals = [0.3, -0.3, 0.2]
        end, reached = time.monotonic() + 60, list[float]()
        while time.monotonic() < end:
            arm.sync_write_goal_position(IDS, goals)
            reached = arm.sync_read_present_position(IDS)
            if all(math.isclose(position, goal, abs_tol=0.03) for position, goal in zip(reached, goals, strict=True)):
                return
        pytest.fail(f"{reached}")
