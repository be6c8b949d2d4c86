"""Python in the loop: what it sees, what it sets, and what happens when it fails."""

import asyncio
import contextlib
import fcntl
import functools
import gc
import json
import os
import pathlib
import pickle
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

import numpy as np
import pytest

import kilohertz
from kilohertz import Mode


ROOT = pathlib.Path(__file__).parent.parent.parent


def robot() -> kilohertz.Robot:
    return kilohertz.Robot.emulated(servos=3, imu=True, wire="instant")


def under_control(live: kilohertz.Live) -> None:
    # Mode 10 is that of position control. A run without a controlled tick is an error.
    while not (live.state().mode == 10).all():
        time.sleep(0.01)


class Enough(Exception):
    """A robot has run for as long as a test needs it. A run of a given time may be over before it began, where a machine stood still."""


def for_ticks(count: int, also: Callable[[], object] = lambda: None) -> Callable[[kilohertz.State, kilohertz.Command], None]:
    """A controller that raises `Enough` after so many ticks; what else it does in each."""
    left = [count]

    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        also()
        left[0] -= 1
        if left[0] <= 0:
            raise Enough

    return controller


def at_terminal(columns: int, script: str, lines: int | None = None) -> str:
    """What a program writes to a terminal of so many columns as standard error, until its end or that of so many live lines."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    output = b""
    with subprocess.Popen([sys.executable, "-c", script], stderr=terminal) as program:
        os.close(terminal)
        # Until no process has it open any more.
        with contextlib.suppress(OSError):
            while more := os.read(ours, 4096):
                output += more
                if lines is not None and output.count(b"\r\x1b[2K") > lines:
                    program.terminate()
                    lines = None
    os.close(ours)
    return output.decode()


def test_a_run_at_a_terminal_shows_a_live_line_as_wide_as_that() -> None:
    run = "import kilohertz; kilohertz.Robot.emulated().run(duration={}, record=False)"
    lines = at_terminal(60, run.format(60.0), lines=3).split("\r\x1b[2K")
    assert len(lines) > 2 and " Hz  missed " in lines[1], lines
    assert all(len(line) < 60 for line in lines), lines
    # A notebook, or a test, has a standard error of its own.
    assert at_terminal(60, f"import io, sys; sys.stderr = io.StringIO(); {run.format(2.0)}; print()") == ""


def test_the_controller_sees_the_robot_and_moves_it() -> None:
    seen: list[tuple[int, float]] = []

    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        seen.append((state.tick, float(state.position[1])))
        assert state.position.shape == (3,)
        assert state.fresh.dtype == np.bool_
        command.position = [0.0, 0.3, 0.0]

    summary = robot().run(controller, duration=1.0, virtual_time=True)
    ticks = [tick for tick, _ in seen]
    assert ticks == sorted(set(ticks))
    assert abs(seen[0][1]) < 0.1
    assert seen[-1][1] == pytest.approx(0.3, abs=0.1)
    assert summary.ended_well
    assert repr(summary).startswith(f"<Summary: {summary.ticks} ticks at ")
    assert str(summary).startswith(summary.verdict["text"] + "\n")
    assert summary.python_ns["count"] == summary.overhead_ns["count"] == len(seen)


def test_a_controller_whose_body_would_never_run_is_refused_before_the_start() -> None:
    async def coroutine(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.position = 0.2

    def generator(state: kilohertz.State, command: kilohertz.Command) -> Iterator[None]:
        yield

    async def both(state: kilohertz.State, command: kilohertz.Command) -> AsyncIterator[None]:
        yield

    class Called:
        async def __call__(self, state: kilohertz.State, command: kilohertz.Command) -> None: ...

    class Updated:
        async def update(self, state: kilohertz.State, command: kilohertz.Command) -> None: ...

    class Started:
        async def start(self, state: kilohertz.State) -> None: ...

        def update(self, state: kilohertz.State, command: kilohertz.Command) -> None: ...

    for wrong in (coroutine, both, Called(), Updated(), Started(), functools.partial(coroutine)):
        with pytest.raises(TypeError, match="async def"):
            robot().run(wrong, duration=0.1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="gait is a generator function"):
        robot().run({"gait": generator}, duration=0.1)  # type: ignore[dict-item]


def test_a_controller_that_returns_something_is_reported_in_its_first_tick() -> None:
    ticks: list[int] = []

    def controller(state: kilohertz.State, command: kilohertz.Command) -> list[float]:
        ticks.append(state.tick)
        return [0.2]

    with pytest.raises(TypeError, match="the controller returned a list, which is not used"):
        robot().run(controller, duration=0.3, virtual_time=True)  # type: ignore[arg-type]
    assert len(ticks) == 1


def test_an_object_is_started_before_its_first_update() -> None:
    class Sway:
        calls: list[str] = []

        def start(self, state: kilohertz.State) -> None:
            self.calls.append("start")
            assert np.isfinite(state.position).all()

        def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
            self.calls.append("update")
            command.mode[0] = Mode.DAMP

    sway = Sway()
    robot().run(sway, duration=0.3, virtual_time=True)
    assert sway.calls[:2] == ["start", "update"]
    assert sway.calls.count("start") == 1


def test_arrays_are_the_same_every_tick_and_read_only() -> None:
    seen = []

    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        seen.append((id(state.position), id(command.position), state.position.flags.writeable))

    robot().run(controller, duration=0.2, virtual_time=True)
    assert len(set(seen)) == 1
    assert seen[0][2] is False


def test_what_the_controller_raises_comes_back_after_damping() -> None:
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        if state.tick > 100:
            raise ZeroDivisionError("of mine")

    with pytest.raises(ZeroDivisionError, match="of mine") as caught:
        robot().run(controller, duration=5.0)
    assert "brought down" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("position", np.nan, "servo_2: position is NaN"),
        ("velocity", np.inf, "servo_2: velocity is inf"),
        ("kp_scale", 1.5, "servo_2: kp_scale is 1.5; it must be between 0 and 1"),
        ("max_torque", -1.0, "servo_2: max_torque is -1"),
        ("mode", 9, "servo_2: mode is 9"),
    ],
)
def test_a_command_no_servo_can_follow_is_named(field: str, value: float, text: str) -> None:
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        getattr(command, field)[1] = value

    with pytest.raises(kilohertz.CommandError, match=text):
        robot().run(controller, duration=5.0)


def test_wrong_shapes_and_types_are_numpy_s_errors() -> None:
    def shape(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.position = [1.0, 2.0]

    def kind(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.position = "left"

    with pytest.raises(ValueError, match="broadcast"):
        robot().run(shape, duration=5.0)
    with pytest.raises(ValueError, match="could not convert"):
        robot().run(kind, duration=5.0)


def test_a_controller_that_hangs_is_interrupted() -> None:
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        while state.tick > 50:
            pass

    with pytest.raises(kilohertz.ControllerTimeout, match="did not return within 0.2 s"):
        robot().run(controller, duration=5.0, patience=0.2)


def test_a_controller_stuck_where_python_cannot_reach_is_left_behind() -> None:
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        if state.tick > 50:
            time.sleep(6.0)

    with pytest.raises(kilohertz.ControllerTimeout, match="left behind"):
        robot().run(controller, duration=5.0, patience=0.2)


@pytest.mark.parametrize("duration", [-1, float("nan"), float("inf")])
def test_a_duration_that_cannot_be_is_refused(duration: float) -> None:
    with pytest.raises(ValueError, match="duration is"):
        robot().run(duration=duration)


def test_joints_have_their_names() -> None:
    seen: list[kilohertz.JointState] = []

    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        command["servo_2"].position = 0.25
        command["servo_2"].kp_scale *= 1.0
        seen.append(state["servo_2"])
        assert state["servo_2"].position == state.position[1]
        assert command.position[1] == command["servo_2"].position == 0.25
        assert state["servo_2"].fresh in (True, False)

    robot().run(controller, duration=0.3, virtual_time=True)
    assert "servo_2" in repr(seen[-1])

    def typo(state: kilohertz.State, command: kilohertz.Command) -> None:
        state["servo_9"]

    with pytest.raises(KeyError, match="servo_9.*there are: servo_1, servo_2"):
        robot().run(typo, duration=0.3, virtual_time=True)


def test_reports_are_written_beside_the_log_and_where_they_are_wanted(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "run.tlog"
    summary = robot().run(duration=0.2, log=log, virtual_time=True)
    assert summary["report"] == str(tmp_path / "run.html")
    page = summary.report(tmp_path / "again.html")
    assert "<html" in page.read_text() and "servo_3" in page.read_text()
    with pytest.raises(FileExistsError):
        summary.report(page)
    # The log's name is taken, and so is the report's.
    assert robot().run(duration=0.2, log=log, virtual_time=True)["report"].endswith("run-1.html")
    assert robot().run(duration=0.2, log=tmp_path / "c.tlog", virtual_time=True, report=False)["report"] is None
    assert "<table" in summary._repr_html_() and "missed replies" in summary._repr_html_()
    copied = pickle.loads(pickle.dumps(summary))
    assert copied == summary
    with pytest.raises(ValueError, match="khz log report"):
        copied.report(tmp_path / "copy.html")


def test_a_run_that_ends_by_an_exception_leaves_its_report(tmp_path: pathlib.Path) -> None:
    def fails(state: kilohertz.State, command: kilohertz.Command) -> None:
        if state.tick > 50:
            raise ValueError("no plan")

    async def cancelled() -> None:
        ticks: list[int] = []
        run = robot().run_async(lambda state, command: ticks.append(state.tick), log=tmp_path / "cancelled.tlog")
        running = asyncio.create_task(run)
        while len(ticks) < 100:
            await asyncio.sleep(0.01)
        running.cancel()
        await running

    with pytest.raises(ValueError, match="no plan"):
        robot().run(fails, log=tmp_path / "failed.tlog", virtual_time=True)
    assert "no plan" in (tmp_path / "failed.html").read_text()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert (tmp_path / "cancelled.html").exists()


def test_a_run_leaves_other_tasks_their_time() -> None:
    async def both() -> None:
        ticks: list[int] = []
        running = asyncio.create_task(robot().run_async(lambda state, command: ticks.append(state.tick), duration=60.0))
        # A run that kept its task's thread would be over at the first look.
        while len(ticks) < 300:
            await asyncio.sleep(0.01)
            assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(both())


def test_a_cancelled_run_brings_the_robot_down() -> None:
    phases: list[int] = []

    async def cancelled() -> None:
        running = asyncio.create_task(robot().run_async(lambda state, command: phases.append(state.tick)))
        while not phases:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    ticks = len(phases)
    time.sleep(0.05)
    assert len(phases) == ticks


def test_everything_says_what_it_is(tmp_path: pathlib.Path) -> None:
    assert kilohertz.__version__.count(".") == 2
    assert repr(robot()) == "<Robot emulated: servo_1, servo_2, servo_3 on main at 1000 Hz>"
    with robot().connect() as connection:
        assert repr(connection) == "<Connection: servo_1, servo_2, servo_3 on main>"
        assert repr(connection.servo("servo_1")) == "<Servo servo_1>"
        assert repr(connection.servo("servo_1").query(timeout=2.0)).startswith("<Reply: mode 0, position ")
        state, command = connection.arrays()
        assert repr(state) == "<State: tick 0, 0.000 s, of servo_1, servo_2, servo_3>"
        assert repr(command) == "<Command: for servo_1, servo_2, servo_3>"
    summary = robot().run(duration=0.2, log=tmp_path / "run.tlog", virtual_time=True)
    assert " ticks late" in repr(summary["late"]) and len(repr(summary["late"])) < 200
    assert json.loads(json.dumps(summary["late"]))["worst"] == summary["late"]["worst"]
    with kilohertz.open_log(tmp_path / "run.tlog") as log:
        assert repr(log).startswith(f"<Log {tmp_path}/run.tlog: tick, servo, command")
        assert repr(log["servo"]).startswith("<Record servo: servo_1.position, servo_1.velocity")


def test_the_trunk_is_where_it_lies_when_the_robot_has_come_down() -> None:
    quadruped = kilohertz.Robot.template("quadruped").run(duration=2.0, virtual_time=True, record=False)
    # Standing it is 0.3 m high; its trunk is 0.1 m thick.
    assert quadruped["trunk"]["position"][2] == pytest.approx(0.05, abs=0.02)
    assert robot().run(duration=0.2, virtual_time=True)["trunk"] is None


def test_all_files_of_a_log_are_named(tmp_path: pathlib.Path) -> None:
    text = (ROOT / "robots/pan_tilt.toml").read_text()
    assert "[log]\n" in text
    rotating = kilohertz.Robot.parse(text.replace("[log]\n", "[log]\nrotate_s = 1.0\n"))
    # The recorder looks about a hundred times a second, and a busy computer lets it look less often.
    summary = rotating.run(duration=30.0, log=tmp_path / "run.tlog", virtual_time=True)
    names = ["run.tlog", *(f"run-{number}.tlog" for number in range(1, len(summary.log_files)))]
    assert len(names) > 2 and summary.log_files == [str(tmp_path / name) for name in names]
    assert f"{summary.log} and {len(names) - 1} more files" in str(summary)


PIPELINED = """
[robot]
name = "pipelined"
[loop]
mode = "pipelined"
[servo_defaults]
watchdog_s = 30.0
[supervisor]
answer_s = 60
missed_replies = 100_000
overruns = 100_000
[bus.main]
link = "emulated"
wire = "instant"
[[servo]]
name = "joint"
bus = "main"
id = 1
"""


def test_on_its_own_thread_a_controller_that_hangs_is_interrupted_after_the_robot_is_down() -> None:
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        while True:
            pass

    with pytest.raises(kilohertz.ControllerTimeout):
        kilohertz.Robot.parse(PIPELINED).run(controller, duration=30.0, record=False)


def test_on_its_own_thread_a_stuck_controller_costs_neither_the_end_nor_the_log(tmp_path: pathlib.Path) -> None:
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        time.sleep(6.0)

    log = tmp_path / "run.tlog"
    with pytest.raises(kilohertz.ControllerTimeout, match="left behind, and the robot was brought down"):
        kilohertz.Robot.parse(PIPELINED).run(controller, duration=30.0, log=log)
    with kilohertz.open_log(log) as written:
        assert written.finished


def test_a_forked_child_has_no_loop() -> None:
    with robot().start(age_limit=60.0) as live:
        under_control(live)
        child = os.fork()
        if child == 0:
            try:
                live.send(position=0.0)
            except kilohertz.KilohertzError as error:
                os._exit(7 if "forked" in str(error) else 1)
            os._exit(2)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.parametrize("end", ["return", "raise ValueError", "sys.exit(0)", "os._exit(3)"])
def test_a_child_forked_in_a_controller_ends_with_its_call_and_the_robot_goes_on(end: str) -> None:
    script = f"""
import os, sys, kilohertz
children, after = [], []
class Enough(Exception): pass
def controller(state, command):
    if not children:
        child = os.fork()
        if child == 0:
            {end}
        children.append(child)
    after.append(state.tick)
    if len(after) > 500:
        raise Enough
try:
    kilohertz.Robot.emulated(wire="instant").run(controller, duration=60.0, record=False)
    sys.exit("it went on for too few ticks")
except Enough:
    pass
_, status = os.waitpid(children[0], 0)
print(os.waitstatus_to_exitcode(status), len(children))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    ended_itself = end == "os._exit(3)"
    assert ran.stdout.split() == ["3" if ended_itself else "1", "1"], ran
    assert ("must end there" in ran.stderr) is not ended_itself, ran


def test_ctrl_c_ends_in_damping() -> None:
    # Where these tests run in the background of a shell, Python found SIGINT ignored and leaves it so.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    driven = threading.Event()

    def interrupt() -> None:
        driven.wait()
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            robot().run(lambda state, command: driven.set(), duration=60.0)
    finally:
        driven.set()
        thread.join()
        signal.signal(signal.SIGINT, former)


LEAVES = """
import os, signal, sys, kilohertz
robot = kilohertz.Robot.emulated(wire="instant")
left = []
def controller(state, command):
    if state.tick >= 100 and not left:
        left.append(os.kill(os.getpid(), signal.Signals[sys.argv[1]]))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize(
    "run",
    [
        "robot.run(controller, duration=60.0, log=sys.argv[2])",
        "with robot.start(age_limit=60.0, log=sys.argv[2]) as live:\n"
        "    while not live.state().tick > 100: pass\n"
        "    os.kill(os.getpid(), signal.Signals[sys.argv[1]])\n"
        "    live.wait()",
        "live = robot.start(age_limit=60.0, log=sys.argv[2])\n"
        "while not live.state().tick > 100: pass\n"
        "os.kill(os.getpid(), signal.Signals[sys.argv[1]])\n",
    ],
    ids=["run", "with", "live"],
)
def test_signals_that_end_a_process_bring_its_robot_down_gently(tmp_path: pathlib.Path, name: str, run: str) -> None:
    path = tmp_path / "run.tlog"
    script = f"{LEAVES}\n{run}\n"
    left = subprocess.run([sys.executable, "-c", script, name, str(path)], capture_output=True, text=True)
    assert left.returncode == 128 + signal.Signals[name], left.stderr
    with kilohertz.open_log(path) as log:
        assert log["servo"]["servo_1.mode"][-1] == 0, "the servo is off"


def test_a_program_keeps_its_own_handlers_of_signals() -> None:
    received, sent, after = [], [], []
    former = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
            # Once: the robot may be under control later on a busy computer, or sooner.
            if not sent:
                sent.append(os.kill(os.getpid(), signal.SIGTERM))
            if received:
                after.append(state.tick)
            # And it goes on.
            if len(after) > 200:
                raise Enough

        with pytest.raises(Enough):
            robot().run(controller, duration=60.0)
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, former)


def test_signals_are_python_s_again_after_a_run() -> None:
    with pytest.raises(Enough):
        robot().run(for_ticks(100), duration=60.0)
    live = robot().start()
    under_control(live)
    live.stop()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("seconds", [np.nan, np.inf, -5.0, 1e10])
def test_times_that_are_none_are_refused(seconds: float) -> None:
    for name in ("duration", "patience"):
        with pytest.raises(ValueError, match=f"{name} is .* it must be from 0 to 1e9 seconds"):
            robot().run(lambda state, command: None, **{name: seconds})
    for name in ("duration", "age_limit"):
        with pytest.raises(ValueError, match=f"{name} is "):
            robot().start(**{name: seconds})
    with robot().start() as live:
        under_control(live)
        with pytest.raises(ValueError, match="over is "):
            live.send(position=0.0, over=seconds)
    with robot().connect() as connection:
        with pytest.raises(ValueError, match="timeout is "):
            connection.scan(timeout=seconds)
        with pytest.raises(ValueError, match="timeout is "):
            connection.servo("servo_1").query(timeout=seconds)


def test_the_collector_is_off_in_the_loop_and_on_afterwards() -> None:
    seen = set()
    with pytest.raises(Enough):
        robot().run(for_ticks(300, lambda: seen.add(gc.isenabled())), duration=60.0)
    assert seen == {False}
    assert gc.isenabled()


def test_a_chain_runs_its_modules_in_order_and_reports_their_times() -> None:
    seen: list[tuple[float, float]] = []

    def lean(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.position = command.position + 0.2

    def look(state: kilohertz.State, command: kilohertz.Command) -> None:
        seen.append((command.position[0], command.velocity[0]))

    chain = {
        "hold": kilohertz.Module.hold(),
        "lean": lean,
        "gently": kilohertz.Module.slew(0.5),
        "look": look,
    }
    summary = robot().run(chain, duration=1.5, virtual_time=True)
    # Each tick begins with what `hold` commands, so leaning does not add up; and `look` sees what the limit lets pass.
    positions = np.array([position for position, _ in seen])
    assert abs(positions[0]) <= 0.5e-3 + 1e-9
    assert np.diff(positions).max() <= 0.5e-3 + 1e-9
    assert positions[-1] == pytest.approx(0.2, abs=0.01)
    assert [module["name"] for module in summary.modules] == ["hold", "lean", "gently", "look"]
    assert {module["time"]["count"] for module in summary.modules} == {len(seen)}
    assert summary.python_ns["count"] == 2 * len(seen)


def test_a_module_sees_modes_as_those_before_it_set_them() -> None:
    seen = set()

    def mixed(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.mode = [Mode.DAMP, Mode.VELOCITY, Mode.STOP]
        command.velocity = 0.1

    def look(state: kilohertz.State, command: kilohertz.Command) -> None:
        seen.add((tuple(command.mode), bool(np.isfinite(command.position).all()), command.velocity[1]))

    robot().run({"mixed": mixed, "look": look}, duration=0.3, virtual_time=True)
    assert seen == {((Mode.DAMP, Mode.VELOCITY, Mode.STOP), True, 0.1)}


def test_velocity_mode_does_not_bring_the_robot_down() -> None:
    def spin(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.mode = Mode.VELOCITY
        command.velocity = 0.5

    assert robot().run(spin, duration=0.3, virtual_time=True).ended_well


def test_the_module_that_fails_is_named() -> None:
    def fails(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.torque[0] = np.inf

    with pytest.raises(kilohertz.CommandError, match="servo_1: torque is inf") as caught:
        robot().run({"hold": kilohertz.Module.hold(), "policy": fails}, duration=5.0)
    assert "policy raised" in caught.value.__notes__[0]


def test_a_rust_module_alone_is_a_controller() -> None:
    summary = robot().run(kilohertz.Module.sine(0.1, 1.0, 2.0, 1.0), duration=0.3, virtual_time=True)
    assert summary.ended_well
    assert "python_ns" not in summary


def test_mistakes_in_a_chain_are_named() -> None:
    with pytest.raises(TypeError, match="gait is a int"):
        robot().run({"gait": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="at least one module"):
        robot().run({})
    with pytest.raises(ValueError, match="cutoff_hz is NaN"):
        kilohertz.Module.low_pass(float("nan"))
    with pytest.raises(ValueError, match="sweep_s is 0"):
        kilohertz.Module.sine(0.1, 1.0, 2.0, 0.0)


def test_beside_the_loop() -> None:
    with robot().start(age_limit=60.0) as live:
        under_control(live)
        live.send(position=[0.0, 0.25, 0.0], over=0.2)
        for _ in range(5000):
            if live.state().position[1] == pytest.approx(0.25, abs=0.05):
                break
            time.sleep(0.01)
        else:
            pytest.fail(f"the joint is at {live.state().position}")
        summary = live.stop()
    assert summary.ended_well
    assert live.over
    with pytest.raises(kilohertz.ClosedError):
        live.state()


def test_beside_the_loop_old_commands_bring_the_robot_down() -> None:
    live = robot().start(age_limit=0.05)
    under_control(live)
    live.send(position=0.0)
    with pytest.raises(kilohertz.RobotError, match="age limit") as caught:
        live.wait()
    assert caught.value.summary.end
    # The cause is there for everyone who asks, and not only for the first.
    for _ in range(2):
        with pytest.raises(kilohertz.RobotError, match="age limit"):
            live.send(position=0.0)
    assert live.over


@pytest.mark.parametrize("zstd", [False, True])
def test_a_run_is_logged_and_read_back(tmp_path: pathlib.Path, zstd: bool) -> None:
    text = (ROOT / "robots/quadruped.toml").read_text()
    if zstd:
        text = text.replace("[log]\n", '[log]\nzstd = ["tick", "servo"]\n')
    path = tmp_path / "run.tlog"
    summary = kilohertz.Robot.parse(text).run(lambda state, command: None, duration=1.0, log=path, virtual_time=True)
    assert summary.log == str(path)
    with kilohertz.open_log(path) as log:
        ticks = log["tick"]["number"]
        assert ticks.tolist() == list(range(summary.ticks))
        servo = log["servo"]
        assert servo["*.position"].shape == (len(ticks), 12)
        np.testing.assert_array_equal(servo["*.position"][:, 1], servo[f"{summary.servos[1]['name']}.position"])
        # By its own times: the first tick comes after the log has begun.
        first, last = servo.time[len(ticks) // 4], servo.time[3 * len(ticks) // 4]
        later = servo[first:last]
        times, some = servo.time_us, later.time_us
        np.testing.assert_array_equal(some, times[(some[0] <= times) & (times <= some[-1])])
        assert 0 < len(later.time_us) < len(ticks)


def test_mistakes_in_a_robot_are_shown() -> None:
    with pytest.raises(kilohertz.ConfigError, match="did you mean"):
        kilohertz.Robot.parse('[bus.a]\nlink = "emulated"\n[[servo]]\nname = "x"\nbus = "b"\nid = 1\n')
    with pytest.raises(FileNotFoundError):
        kilohertz.Robot("/nowhere/robot.toml")
    with pytest.raises(TypeError, match="controller"):
        robot().run(3)  # type: ignore[arg-type]


class Looks:
    """Loads for long in its first call, and then takes several ticks for each decision."""

    decision_hz = 20
    max_late = 1000

    def __init__(self) -> None:
        self.calls = 0

    def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
        time.sleep(0.02 if self.calls else 0.15)
        self.calls += 1
        command.position = 0.001 * self.calls


def test_a_controller_may_take_longer_than_a_tick_and_its_first_call_much_longer() -> None:
    looks = Looks()
    summary = robot().run(looks, duration=2.0, record=False)
    assert summary.ended_well and 3 < summary.decisions <= looks.calls, (summary.end, summary.decisions, looks.calls)
    assert summary.decision_ns["p50"] > 10_000_000, summary.decision_ns


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [("decision_hz", 30.0, "does not divide"), ("delay_ticks", 51, "`delay_ticks = 51` is not from 1 to the 50 ticks")],
)
def test_a_pace_that_does_not_fit_is_refused(attribute: str, value: float, message: str) -> None:
    looks = Looks()
    setattr(looks, attribute, value)
    with pytest.raises(kilohertz.StartError, match=message):
        robot().run(looks, duration=1.0, virtual_time=True, record=False)
