"""Goals to all servos and the state of all, over and over: rustypot by its fast sync read, from Python as LeRobot's users have it."""

import rustypot

bus = rustypot.Xl330PyController(path, 4_000_000, 1.0)
bus.set_fast_sync_read(True)


def cycle():
    bus.sync_write_raw_goal_position(servos, [2048] * len(servos))
    return bus.sync_read_raw_data(servos, 126, 10)


measure(cycle)
