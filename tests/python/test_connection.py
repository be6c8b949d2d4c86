"""Servos without a loop, and faults put into emulated ones."""

import asyncio
import math
import subprocess
import sys
import time

import pytest

import kilohertz
from kilohertz import Mode



def test_a_scan_finds_every_servo_on_its_bus() -> None:
    with kilohertz.Robot.quadruped().connect() as robot:
        found = robot.scan()
    assert len(found) == 12
    assert {each.bus for each in found} == set(kilohertz.Robot.quadruped().buses)
    assert len({each.uuid for each in found}) == 12


def test_a_scan_of_a_half_duplex_bus_asks_one_by_one() -> None:
    with kilohertz.Robot.emulated(servos=3, wire="rs485").connect() as robot:
        assert [each.id for each in robot.scan()] == [1, 2, 3]


def test_single_commands_move_one_joint() -> None:
    with kilohertz.Robot.emulated(servos=2).connect() as robot:
        servo = robot.servo("servo_2")
        assert servo.query().mode == 0
        for _ in range(400):
            reply = servo.position(0.4, watchdog=math.nan)
            if reply.position == pytest.approx(0.4, abs=0.02):
                break
            time.sleep(0.005)
        else:
            pytest.fail(f"the joint is at {reply.position}")
        assert reply.mode == 10
        assert robot.servo("servo_1").query().position == pytest.approx(0.0, abs=0.02)
        assert servo.zero_velocity().fault == 0
        assert servo.query().mode == 12
        servo.stop()
        assert servo.query().mode == 0


def test_chosen_registers_come_at_their_resolutions() -> None:
    with kilohertz.Robot.emulated().connect() as robot:
        reply = robot.servo("servo_1").query({0x004: "float", 0x101: "int32"})
    assert set(reply.registers) >= {0x004, 0x101}
    assert reply.voltage == pytest.approx(24.0, abs=1.0)


def test_at_the_end_what_was_commanded_is_stopped() -> None:
    connection = kilohertz.Robot.emulated().connect()
    connection.servo("servo_1").position(0.1, watchdog=math.nan)
    sent = []
    stop = connection._native.stop

    class Spy:
        def __getattr__(self, name):
            return getattr(native, name)

        def stop(self, *words):
            sent.append(words)
            return stop(*words)

    native, connection._native = connection._native, Spy()
    connection.close()
    assert sent == [(0,)]


def test_a_whole_cycle() -> None:
    # Slow, so that a computer that stands still for a while does not miss a reply.
    with kilohertz.Robot.emulated(servos=3, wire="instant", rate_hz=5.0).connect() as robot:
        state, command = robot.arrays()
        assert robot.cycle(command, state) == 0
        assert state.fresh.all()
        command.mode = Mode.POSITION
        command.position = state.position
        assert robot.cycle(command, state) == 0


def test_calls_can_be_awaited_on_a_thread() -> None:
    async def both() -> list[kilohertz.Reply]:
        with kilohertz.Robot.emulated(servos=2).connect() as robot:
            return await asyncio.gather(*(asyncio.to_thread(robot.servo(name).query) for name in robot.servos))

    assert all(reply.mode == 0 for reply in asyncio.run(both()))


THREADS = """
import threading
import kilohertz

with kilohertz.Robot.emulated(servos=2).connect() as robot:
    state, command = robot.arrays()
    begun = threading.Event()

    def cycle() -> None:
        begun.set()
        for _ in range(200):
            robot.cycle(command, state)

    threads = [threading.Thread(target=cycle)]
    threads += [threading.Thread(target=lambda: [robot.servo(name).query() for _ in range(50)]) for name in robot.servos]
    for thread in threads:
        thread.start()
    begun.wait()
    robot.inject("imu_gone")
    while any(thread.is_alive() for thread in threads):
        robot._native.receive()
"""


def test_threads_that_share_a_connection_wait_for_one_another() -> None:
    # In a process of its own, because threads that wait for one another for ever would take these tests with them.
    subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=100)


def test_a_servo_that_does_not_stop_is_warned_of() -> None:
    robot = kilohertz.Robot.emulated(servos=2).connect()
    for name in robot.servos:
        robot.servo(name).position(0.1)
    robot.inject("silent", "servo_2")
    with pytest.warns(RuntimeWarning, match="not known to have stopped: servo_2$"):
        robot.close()


def test_a_silent_servo_is_an_error_with_its_name() -> None:
    with kilohertz.Robot.emulated(servos=2).connect() as robot:
        robot.inject("silent", "servo_2")
        with pytest.raises(kilohertz.NoReplyError, match=r"servo_2 \(id 2 on bus main\)"):
            robot.servo("servo_2").query()
        assert robot.servo("servo_1").query().mode == 0
        robot.inject("silent", "servo_2", 0)
        assert robot.servo("servo_2").query().mode == 0


def test_wrong_names_and_closed_connections() -> None:
    robot = kilohertz.Robot.emulated().connect()
    with pytest.raises(KeyError, match="there are: servo_1"):
        robot.servo("elbow")
    with pytest.raises(ValueError, match="there are: silent"):
        robot.inject("tired", "servo_1")
    with pytest.raises(ValueError, match="int8, int16, int32 or float"):
        robot.servo("servo_1").query({1: "double"})
    robot.close()
    with pytest.raises(kilohertz.ClosedError):
        robot.servo("servo_1").query()


def active() -> kilohertz.Live:
    """A robot whose servos are in their mode 10, position. A fault that comes before is cleared by the stop commands of
    the start."""
    live = kilohertz.Robot.emulated(servos=2).start(age_limit=60.0)
    while not (live.state().mode == 10).all():
        time.sleep(0.01)
    return live


def test_faults_in_a_running_loop_bring_it_down() -> None:
    live = active()
    live.inject("fault", "servo_2", 33)
    with pytest.raises(kilohertz.RobotError, match="servo_2"):
        live.wait()


def test_a_servo_that_falls_silent_in_a_running_loop_is_named() -> None:
    live = active()
    # Past the grace of a start.
    time.sleep(0.6)
    live.inject("silent", "servo_1")
    with pytest.raises(kilohertz.RobotError, match="servo_1") as caught:
        live.wait()
    assert "no reply in time" in caught.value.summary.end


ARM = """
[bus.main]
link = "emulated"
[servo_defaults]
bus = "main"
family = "damiao"
damiao = { model = "4310" }
""" + "".join(f'[[servo]]\nname = "joint_{number}"\nid = {number}\noffset = 0.25\n' for number in (1, 2))


def test_zero_id_and_watchdog_are_what_the_servo_says() -> None:
    with kilohertz.Robot.parse(ARM).connect() as robot:
        servo = robot.servo("joint_1")
        assert servo.set_zero().position == pytest.approx(0.25, abs=0.01)
        assert servo.set_watchdog(0.05, store=True).registers[9] == 1000
        with pytest.raises(ValueError, match="a servo with id 2 is on the bus already"):
            servo.set_id(2)
        assert servo.set_id(3).registers[8] == 3
        assert [each.id for each in robot.scan()] == [2, 3]


def test_a_moteus_has_its_own_tool_for_its_id() -> None:
    with kilohertz.Robot.emulated(servos=1).connect() as robot:
        servo = robot.servo("servo_1")
        assert servo.set_zero().position == pytest.approx(0.0, abs=0.01)
        with pytest.raises(ValueError, match="conf set id.id 5"):
            servo.set_id(5)
