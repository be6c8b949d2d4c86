"""How long moves take that the controller `targets` makes, against `ruckig`, which knows the shortest of all within the
same limits. What is counted are ticks of the log, so a computer that is busy changes nothing."""

import itertools
import json
import pathlib
import random
import socket
import subprocess
import time
from typing import Any

import ruckig
import tlog

from robots import lenient

JOINTS, MOVES, DT = 8, 3, 1e-3


def limits(chance: random.Random) -> dict[str, float]:
    """Velocity, acceleration and jerk of a joint."""
    acceleration = chance.uniform(5, 60)
    return {"velocity": chance.uniform(0.5, 4), "acceleration": acceleration, "jerk": acceleration * chance.uniform(20, 400)}


def robot(joints: list[dict[str, float]]) -> str:
    servos = "".join(
        f'[bus.b{number}]\nlink = "emulated"\n[[servo]]\nname = "j{number}"\nbus = "b{number}"\nid = 1\n'
        f"limits = {{ position = [-20, 20], velocity = {joint['velocity']!r}, "
        f"acceleration = {joint['acceleration']!r}, jerk = {joint['jerk']!r} }}\n"
        for number, joint in enumerate(joints)
    )
    return lenient(
        '[servo_defaults]\n' + servos + '[controller]\nname = "targets"\n'
        '[targets]\nfrom = "unix:moves.sock"\nlatest = true\nhold_over_s = 1\n[supervisor.reactions]\ntargets = "warn"\n'
        # While the loop stands still a moteus moves on with the velocity of the last command.
        'position = "warn"\nvelocity = "warn"\n'
    )


def shortest(distance: float, joint: dict[str, float]) -> float:
    """The duration of the shortest move from rest to rest, s."""
    wanted = ruckig.InputParameter(1)
    wanted.current_position, wanted.target_position = [0.0], [distance]
    wanted.max_velocity, wanted.max_acceleration = [joint["velocity"]], [joint["acceleration"]]
    wanted.max_jerk = [joint["jerk"]]
    found = ruckig.Trajectory(1)
    assert ruckig.Ruckig(1, DT).calculate(wanted, found) == ruckig.Result.Working
    return float(found.duration)


def connected(path: pathlib.Path, run: "subprocess.Popen[str]") -> socket.socket:
    program = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    while program.connect_ex(str(path)):
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    return program


def test_no_move_takes_much_longer_than_the_shortest(khz: str, tmp_path: pathlib.Path) -> None:
    chance = random.Random(41)
    joints = [limits(chance) for _ in range(JOINTS)]
    (tmp_path / "moves.toml").write_text(robot(joints))
    words = [khz, "run", "moves.toml", "--no-report", "--log", "moves.tlog"]
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    program = connected(tmp_path / "moves.sock", run)

    def asks(**message: object) -> dict[str, Any]:
        program.send(json.dumps({"from": "judge", **message}).encode())
        answer: dict[str, Any] = json.loads(program.recv(1 << 16))
        return answer

    def ticks(count: int) -> None:
        begun = asks()["tick"]
        while asks()["tick"] < begun + count:
            assert run.poll() is None, run.communicate()
            time.sleep(0.02)

    # The first target is where they are: what is taken over goes its own way.
    while "refused" in (answer := asks(state=True, position=asks(state=True)["state"]["position"])):
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    at = answer["state"]["position"]
    ticks(500)
    wanted = [at]
    for _ in range(MOVES):
        moves = [chance.choice([-1, 1]) * chance.uniform(0.02, 1.2) * joint["velocity"] for joint in joints]
        wanted.append([here + move for here, move in zip(wanted[-1], moves)])
        assert "refused" not in asks(position=wanted[-1])
        ticks(2300)
    run.send_signal(2)
    print(run.communicate()[0])
    log = tlog.read((tmp_path / "moves.tlog").read_bytes())
    for number, joint in enumerate(joints):
        # How often the loop had stood still by then.
        stalls = itertools.accumulate(int(tick["skipped"] >= 10) for tick in log["tick"])
        samples = zip((sample[f"j{number}"] for sample in log["command"]), stalls, strict=True)
        known = [(sample["position"], count) for sample, count in samples if sample["kind"] == "position"]
        commanded, stalls_by = [position for position, _ in known], [count for _, count in known]
        begin = 0
        for before, after in zip(wanted, wanted[1:]):
            here, there = before[number], after[number]
            # Positions in a log have 24 bits.
            near = 4e-7 * max(1.0, abs(there), abs(here))
            rested, ticks_left = begin, range(begin, len(commanded))
            begin = next((tick for tick in ticks_left if abs(commanded[tick] - here) > near), len(commanded))
            end = next((tick for tick in range(begin, len(commanded)) if abs(commanded[tick] - there) <= near), len(commanded) - 1)
            # A loop that stood still goes on from where the joints are, and a target that is too old by then is not gone to.
            if stalls_by[end] > stalls_by[rested]:
                break
            longer = (end - begin + 1) * DT - shortest(there - here, joint)
            bar = 1.4 * joint["acceleration"] / joint["jerk"]
            print(f"j{number} {there - here:6.3f} rad: {longer * 1e3:6.1f} ms longer, {bar * 1e3:.1f} ms allowed")
            # Whole ticks: of the mean, of each of the corners, and the last one.
            assert -2 * DT <= longer <= bar + 5 * DT
            begin = end
