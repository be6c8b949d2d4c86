"""Goals to all servos and the state of all, over and over: rustypot, from Python as LeRobot's users have it."""

import rustypot

bus = rustypot.Sts3215PyController(path, 1_000_000, 2.0)


def cycle():
    bus.sync_write_raw_goal_position(servos, [2048] * len(servos))
    return bus.sync_read_raw_data(servos, 56, 6)


measure(cycle)
