"""Robot files and ports for tests in real time, on a computer that may be busy with something else."""

import random
import re
import socket

LENIENT = """[supervisor]
answer_s = 60
missed_replies = 100_000
stale_ms = 100_000
imu_silent_ms = 100_000
overruns = 100_000
controller_slow = 100_000
"""


def lenient(text: str) -> str:
    """One of our robot files so that only an operator, or a frozen process, brings the robot down: what a robot does that is held up
    is tried elsewhere. As it is, a robot that has no processor for a second after its start ends its run before the test begins."""
    text = re.sub(r"^\[supervisor\]\n[^\[]*", "", text, flags=re.M)
    # Of a period that is longer than in the file four fifths are for the bus.
    text = re.sub(r"^(watchdog_s|bus_deadline_us) = .*\n", "", text, flags=re.M)
    # The longest that they can be sent: where that is 30 s, a machine that stands still for seconds is no reason to come down.
    short = 'watchdog = "int8"' in text or not set(re.findall(r'\bfamily = "(\w+)"', text)) <= {"moteus", "damiao"}
    longest = 1.2 if short else 30.0
    text, found = re.subn(r"^\[servo_defaults\]$", f"[servo_defaults]\nwatchdog_s = {longest}", text, flags=re.M)
    assert found == 1
    # While the loop stands still a moteus moves on with the velocity of the last command.
    reactions = "" if "[supervisor.reactions]" in text else 'reactions = { position = "warn", velocity = "warn", tilt = "warn" }\n'
    return f"{text}\n{LENIENT}{reactions}"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """An unused port. Not one that the kernel gives to any program that asks: by the time it is used another test could have it."""
    with socket.socket(socket.AF_INET, kind) as taken:
        while True:
            try:
                taken.bind(("127.0.0.1", random.SystemRandom().randrange(20_000, 32_000)))
                return int(taken.getsockname()[1])
            except OSError:
                continue
