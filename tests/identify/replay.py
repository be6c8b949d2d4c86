"""Recordings of a servo on a pendulum (Rhoban/bam) beside an emulated robot that gets the same goals, through the bytes.

    khz identify raw/*.json --joint e > found.txt
    python tests/identify/replay.py found.txt raw/*.json

Loop, bus, servo and its registers take part: a goal goes out in the first tick after its time, in the servo's steps, and a position is what
the servo answered, in its steps, at its age. Prints the mean absolute error of each file and of the odd ones, which the fit did not have.
"""

import json
import math
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np

import kilohertz
from kilohertz import Mode

GRAVITY = 9.80665
RATE_HZ = 1000
# Until the robot is under control and at the recording's first position.
BEFORE_S = 0.5

ROBOT = """
[loop]
rate_hz = {rate}
bus_deadline_us = 900
[bus.rig]
link = "emulated"
wire = "{family}"
baud = 1_000_000
turnaround_us = 0
[emulation]
supply_v = {supply}
[supervisor]
voltage_low_v = 4
[log]
enabled = false
[[servo]]
name = "e"
bus = "rig"
family = "{family}"
id = 1
{family} = {{ {servo} }}
joint = {{ start = {start}, {joint} }}
"""


def found(path: str) -> dict[str, float]:
    """The parameters that `khz identify` printed."""
    lines = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
    names = ("kt", "stall_torque", "sag", "gain", "goal_speed", "delay_ms", "armature", "gravity_at", "viscous", "coulomb", "load_friction")
    return {words[0]: float(words[1]) for words in lines if words and words[0] in names}


def robot(recording: dict[str, Any], values: dict[str, float]) -> kilohertz.Robot:
    """The robot file of a rig with this servo."""
    supply, whole = recording["vin"], values["kt"] * recording["vin"] / values["stall_torque"]
    mass, length, arm = recording["mass"], recording["length"], recording.get("arm_mass", recording.get("arm-mass", 0.0))
    joint = {name: values[name] for name in ("armature", "gravity_at", "viscous", "coulomb", "load_friction")}
    joint |= {"inertia": (mass + arm / 3) * length**2, "gravity": (mass + arm / 2) * length * GRAVITY}
    kt, sag = values["kt"], values["sag"] / (1 + values["sag"])
    if recording["motor"] == "xl330":
        # Beyond 7 V it switches itself off: a motor that does at 7 V what this one does at its supply.
        kt, whole, supply = kt * 7 / supply, whole * (7 / supply) ** 2, 7
        family, servo = "dynamixel", {"position_p": recording["kp"], "torque_constant": kt}
        words = 'model = "XL330-M288", mode = "position"'
    else:
        family, words = "feetech", 'model = "STS3215", unwatched = true'
        servo = {"position_p": recording["kp"], "motor_constant": kt, "duty_gain": values["gain"]}
    servo |= {"motor_resistance": whole, "sag": sag, "goal_speed": values["goal_speed"], "delay_ms": values["delay_ms"]}
    start = recording["entries"][0]["position"]

    def keys(numbers: dict[str, float]) -> str:
        return ", ".join(f"{name} = {value}" for name, value in numbers.items())

    text = ROBOT.format(
        rate=RATE_HZ, family=family, supply=supply, servo=f"{words}, {keys(servo)}", start=start, joint=keys(joint)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rig.toml"
        path.write_text(text)
        return kilohertz.Robot(path)


class Replay:
    """Sends the goals at their times, and keeps what the servo answers."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.times = np.array([entry["timestamp"] for entry in entries]) - entries[0]["timestamp"] + BEFORE_S
        self.entries = entries
        self.begun = math.nan
        self.seen: list[tuple[float, float]] = []

    def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
        if math.isnan(self.begun):
            self.begun = state.time
        now = state.time - self.begun
        self.seen.append((now - float(state.age[0]), float(state.position[0])))
        at = int(np.searchsorted(self.times, now + 1e-9, side="right")) - 1
        entry = self.entries[max(at, 0)]
        command.mode = Mode.POSITION if entry.get("torque_enable", True) else Mode.STOP
        command.position = entry["goal_position"] if at >= 0 else entry["position"]


def error(recording: dict[str, Any], values: dict[str, float]) -> float:
    """Mean absolute error of the position at the recorded times, rad."""
    replay = Replay(recording["entries"])
    robot(recording, values).run(replay, duration=replay.times[-1] + 1.0, virtual_time=True, record=False, report=False)
    seen = np.array(replay.seen)
    answered = np.interp(replay.times, *seen.T)
    recorded = np.array([entry["position"] for entry in replay.entries])
    return float(np.abs(answered - recorded).mean())


def main() -> None:
    values = found(sys.argv[1])
    errors = []
    for path in sorted(sys.argv[2:]):
        recording = json.loads(pathlib.Path(path).read_text())
        errors.append(error(recording, values))
        print(f"{errors[-1]:.4f} rad  {pathlib.Path(path).name}  kp {recording['kp']}, {recording['trajectory']}")
    print(f"{np.mean(errors[::2]):.4f} rad fitted, {np.mean(errors[1::2]):.4f} rad not fitted")


if __name__ == "__main__":
    main()
