"""Robots and their runs: Python in the loop, or beside it."""

from __future__ import annotations

import asyncio
import enum
import gc
import importlib.util
import json
import os
import pathlib
import signal
import sys
import sysconfig
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, cast

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import Command, KilohertzError, Module, Parameter, RobotError, State
from ._notebook import progress, table
from .connection import Connection, _index
from .results import Distribution, Table, distributions
from .templates import template


class Mode(enum.IntEnum):
    """What a servo is commanded to do; the values of `Command.mode`."""

    STOP = 0
    """Output off. Also clears a fault."""
    DAMP = 1
    """Zero velocity: damping without holding a position."""
    POSITION = 2
    """Follow a position and velocity, adding a torque."""
    VELOCITY = 3
    """Follow a velocity from wherever the joint is, adding a torque; `position` and `kp_scale` do not matter."""


class Doing(enum.IntEnum):
    """What a servo is doing; the values of `State.doing`."""

    OFF = 0
    """Its output is off, and nothing is wrong."""
    STARTING = 1
    """On its way from off to on."""
    FOLLOWING = 2
    """It follows its commands."""
    DAMPING = 3
    """It damps."""
    TIMED_OUT = 4
    """It has received no command for too long and acts on its own, as its watchdog is set to."""
    FAULTED = 5
    """It has switched itself off; `State.fault` has the reason."""
    OTHER = 6
    """Its output is on for something no loop commands, such as a calibration."""


class Controller(Protocol):
    """A controller with a state of its own. `start(state)`, if there is one, is called once before.

    With an attribute `decision_hz` it is asked so often only, on a thread of its own, and followed `delay_ticks` after the tick whose state
    it sees; `max_late` late decisions in a row (2) bring the robot down."""

    def update(self, state: State, command: Command) -> object:
        """Called every tick: looks at the state, sets the command."""


AnyModule: TypeAlias = Controller | Callable[[State, Command], object] | Module
_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | signal.Handlers
AnyController: TypeAlias = AnyModule | Mapping[str, AnyModule]


_Function = TypeVar("_Function", bound=Callable[..., object])


def parameters(**declared: Parameter) -> Callable[[_Function], _Function]:
    """Declares parameters of a controller that is a function; it reads them from `state.parameters`. One that is an object has
    a dictionary as its attribute `parameters` instead.

    >>> @parameters(stiffness=Parameter(0.5, min=0.0, max=1.0, text="Share of the position gain"))
    ... def controller(state, command):
    ...     command.kp_scale = state.parameters["stiffness"]
    """

    def declare(function: _Function) -> _Function:
        function.parameters = declared  # type: ignore[attr-defined]
        return function

    return declare


class LateTicks(dict[str, Any]):
    """`summary["late"]`, a dictionary as any other; printed it is one line, and not every late tick with all its parts."""

    def __repr__(self) -> str:
        causes = [f"{group['cause']} {group['ticks']:,}" for group in self["by_cause"] if group["ticks"]]
        late = sum(group["ticks"] for group in self["by_cause"])
        return f"<{late:,} of {self['judged']:,} ticks late{': ' if causes else ''}{', '.join(causes)}; keys: {', '.join(self)}>"


class Verdict(TypedDict):
    """Whether the robot held its rate, and why it is no better."""

    held: bool
    level: str
    """`good`, `warn` or `bad`."""
    headline: str
    text: str
    cause: str | None
    do: str | None
    """How to fix it: a command or a hint."""
    reasons: list[Any]


class Summary(dict[str, Any]):
    __doc__ = """A run in figures, as `khz run --json` prints them; every key is also an attribute.

    `verdict`, `rate_hz`, `controlled` and `outside` (the counts below of those ticks, `periods`, `lost_periods`), `lost_time`, `grade`,
    `end`, `log`, `log_dropped`, `log_error` (None, or why the log is not whole), `sinks`, `events`, `servos`; of a Python
    controller the distributions `python_ns` (in it) and `overhead_ns` (ours around it). `trunk` has the `position` (m) of the
    trunk of an emulated robot at the very end, when the robot has come down after its control; None without one. Of a chain `modules` lists each module's `name` and `time` in ns.
    Counts, and distributions (in ns, with `p50 p90 p99 p999 max`), as `docs/metrics.md` defines them:

""" + "".join(f"    - `{key}`: {definition}\n" for key, definition in _native.FIGURES.items())

    robot: str
    clock: str
    verdict: Verdict
    rate_hz: float
    target_rate_hz: float
    end: str
    ended_well: bool
    log: str | None
    log_files: list[str]
    log_dropped: int
    log_error: str | None
    grade: str
    controlled: dict[str, int]
    outside: dict[str, int]
    events: list[dict[str, Any]]
    servos: list[dict[str, Any]]
    buses: list[dict[str, Any]]
    modules: list[dict[str, Any]]
    parts: list[dict[str, Any]]
    changed_commands: int
    early_frames: int
    steal_ns: int
    python_ns: Distribution
    overhead_ns: Distribution
    wake_latency_outside_ns: Distribution
    # The figures of `docs/metrics.md`; a test compares them with `_native.FIGURES`.
    clipped_decisions: int
    control_ns: Distribution
    cpu_ns: Distribution
    cut_decisions: int
    cycle_ns: Distribution
    decision_ns: Distribution
    decisions: int
    imu_missed: int
    late_decisions: int
    late_in_a_row: int
    late_replies: int
    late_wakes: int
    loop_compute_ns: Distribution
    missed_decisions: int
    missed_replies: int
    missed_while_off_cpu: int
    overruns: int
    page_faults: int
    period_ns: Distribution
    skipped: int
    skipped_in_a_row: int
    start_delay_ns: Distribution
    ticks: int
    ticks_without_frame: int
    unexpected_frames: int
    wake_latency_ns: Distribution

    _run: _native.Run | None = None

    def __getstate__(self) -> None:
        """A copy has the figures alone."""

    def report(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the report, a page of HTML, and returns its path. FileExistsError if that is there. The one that a run
        writes beside its log is `summary["report"]`."""
        if self._run is None:
            raise ValueError("a copy of a summary has no report; `khz log report` makes one of the log")
        with open(path, "x", encoding="utf-8") as file:
            file.write(self._run.page())
        return pathlib.Path(path)

    @property
    def distributions(self) -> Table:
        """Every distribution in these figures as a table: one row each, those of servos and modules by their names."""
        return distributions(self)

    def __repr__(self) -> str:
        return (
            f"<Summary: {self.ticks} ticks at {self.rate_hz:.1f} Hz of {self.target_rate_hz:.0f}, "
            f"{self.missed_replies} replies missed; {self.end}>"
        )

    def __str__(self) -> str:
        """The verdict in one sentence, then what it is of and where its files are."""
        changed = f"{self.changed_commands:,} commands changed to keep limits; " if self.changed_commands else ""
        more = f" and {len(self['log_files']) - 1} more files" if len(self["log_files"]) > 1 else ""
        files = "; ".join(str(file) for file in (self["log"] and self["log"] + more, self["report"]) if file)
        return f"{self.verdict['text']}\n{self.ticks:,} ticks; {changed}{self.end}; {files or 'no log'}"

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {
            "rate": f"{self.rate_hz:.2f} Hz of {self.target_rate_hz:.0f}",
            "ticks": f"{self.ticks:,}",
            "lost periods": f"{self.controlled['lost_periods']:,}",
            "missed replies": f"{self.missed_replies:,}",
            "overruns": f"{self.overruns:,}",
            "bus cycle": _microseconds(self.cycle_ns),
            "wake latency": _microseconds(self.wake_latency_ns),
            "end": self.end,
            "log": self.log or "none",
        }
        return table(self.robot, rows.items())

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no figure is called {name!r}; there are: {', '.join(self)}") from None


class Robot:
    """A robot, as its file describes it. Nothing is opened before it runs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The robot of a file. Raises ConfigError that shows every mistake with its place."""
        _name_mujoco()
        self._native = _native.Robot.load(os.fspath(path))

    @classmethod
    def parse(cls, text: str, name: str = "robot.toml") -> Robot:
        """The robot of a text; `name` is what messages call it."""
        _name_mujoco()
        robot = cls.__new__(cls)
        robot._native = _native.Robot.parse(text, name)
        return robot

    @classmethod
    def template(cls, name: str) -> Robot:
        """A robot that comes with the package, emulated: `"leg3"`, `"quadruped_mujoco"`. `kilohertz.templates()` lists them;
        `kilohertz.template(name)` is the file. Raises ValueError if there is none of this name."""
        return cls(template(name))

    @classmethod
    def quadruped(cls) -> Robot:
        """The emulated quadruped `khz run` uses without a file: 12 servos on 4 buses, and an IMU."""
        robot = cls.__new__(cls)
        robot._native = _native.Robot.quadruped()
        return robot

    @classmethod
    def emulated(cls, servos: int = 1, *, rate_hz: float = 1000.0, imu: bool = False, wire: str = "can_fd") -> Robot:
        """An emulated robot in one line: joints `servo_1` … on one bus. `wire` is `can_fd`, `rs485` or `instant`.

        It forgives a computer that is slow or stands still for a while, so that tests on it depend on what a controller
        does and not on how busy the computer is; 50 ticks without a reply or a fault still bring it down. A robot file
        has the thresholds for a real one."""
        lines = ["[robot]", 'name = "emulated"', "[loop]", f"rate_hz = {rate_hz}", "[bus.main]"]
        lines += ['link = "emulated"', f'wire = "{wire}"', "[log]", "enabled = false"]
        lines += ["[supervisor]", "answer_s = 60", "controller_us = 100_000", "controller_slow = 100_000"]
        lines += ["overruns = 100_000", "missed_replies = 50", "stale_ms = 100_000", "imu_silent_ms = 100_000"]
        lines += ["[servo_defaults]", "watchdog_s = 30.0"]
        lines += ["[imu]", 'link = "emulated"'] if imu else []
        for number in range(1, servos + 1):
            lines += ["[[servo]]", f'name = "servo_{number}"', 'bus = "main"', f"id = {number}"]
        return cls.parse("\n".join(lines), "emulated")

    def _repr_html_(self) -> str:
        joints = zip(self.servos, self._native.devices, self._native.limits, strict=True)
        rows = (
            (name, bus, number, family, "none" if limits is None else f"{limits[0]:g} to {limits[1]:g}")
            for name, (bus, number, family), limits in joints
        )
        imu = ", with an IMU" if self._native.has_imu else ""
        head = ("servo", "bus", "id", "family", "position limits (rad)")
        return table(f"{self.name}: {self.rate_hz:g} Hz{imu}", rows, head, "; ".join(self.warnings))

    def __repr__(self) -> str:
        return f"<Robot {self.name}: {', '.join(self.servos)} on {', '.join(self.buses)} at {self.rate_hz:g} Hz>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def servos(self) -> list[str]:
        """Names of the servos, in the order of all arrays."""
        return self._native.servos

    @property
    def buses(self) -> list[str]:
        """Names of the buses."""
        return self._native.buses

    @property
    def rate_hz(self) -> float:
        """Ticks per second."""
        return self._native.rate_hz

    @property
    def warnings(self) -> list[str]:
        """What is suspicious in the file, but no error."""
        return self._native.warnings

    def run(
        self,
        controller: AnyController | None = None,
        *,
        duration: float | None = None,
        log: str | os.PathLike[str] | None = None,
        record: bool = True,
        report: bool = True,
        patience: float = 1.0,
        virtual_time: bool = False,
        view: bool | str = False,
        seed: int | None = None,
    ) -> Summary:
        """Runs the robot until `duration` seconds are over, and returns the figures.

        `controller` is called every tick by the loop's own thread; without one the file's own controller runs.
        The command starts as "hold every joint where it was found", and keeps its values from tick to tick.
        Meanwhile Python's garbage collector is off, since a collection takes longer than a tick: do not make
        reference cycles every tick.

        A mapping is a chain: its modules, Python ones and `Module`s of the Rust side, run one after another in the
        same tick under the names they have there. Each finds the command as the one before left it; `modules` of the
        summary has the time that each takes, by its name.

        Where standard error is a terminal, a live line shows rate, missed replies, overruns and times meanwhile; in a notebook
        it is below the cell and updates every second.

        `log` replaces the file's log; `record=False` writes none. The report is written beside the log, unless
        `report=False`. A controller that does not return for `patience`
        seconds gets a ControllerTimeout raised inside it.

        With `virtual_time` an emulated robot runs as fast as the CPU computes it: the run repeats exactly and says nothing
        about this computer's timing. `seed` replaces that of the robot file: other noise and other faults.

        Raises what the controller raised, KeyboardInterrupt after Ctrl-C, SystemExit after SIGTERM or SIGHUP (exit code
        143 or 129), RobotError if something else brought the robot down, StartError if it could not start. Each time the
        robot has been brought down gently first.
        """
        native = self._native
        if isinstance(controller, Mapping):
            controller = dict(controller)
        with _undisturbed(), _ends_gently():
            run = native.start(
                controller,
                duration=duration,
                log=_path(log),
                record=record,
                patience=patience,
                virtual_time=virtual_time,
                view=_view(view),
                seed=seed,
            )
            _print_view(run)
            return _summary(run, run.finish(_is_watched(), progress()), report)

    async def run_async(
        self,
        controller: AnyController | None = None,
        *,
        duration: float | None = None,
        log: str | os.PathLike[str] | None = None,
        record: bool = True,
        report: bool = True,
        patience: float = 1.0,
        virtual_time: bool = False,
        view: bool | str = False,
        seed: int | None = None,
    ) -> Summary:
        """As `run`, while other tasks of this event loop go on. The controller is called on the loop's own thread.
        When the task is cancelled, as by Ctrl-C, the robot is brought down gently first."""
        if isinstance(controller, Mapping):
            controller = dict(controller)
        with _undisturbed(), _ends_gently():
            run = self._native.start(
                controller,
                duration=duration,
                log=_path(log),
                record=record,
                patience=patience,
                virtual_time=virtual_time,
                view=_view(view),
                seed=seed,
            )
            _print_view(run)
            ending = asyncio.ensure_future(asyncio.to_thread(run.finish, False, progress()))
            try:
                text = await asyncio.shield(ending)
            except asyncio.CancelledError:
                run.stop()
                await asyncio.wait([ending])
                with suppress(Exception):
                    _summary(run, ending.result(), report)
                raise
            return _summary(run, text, report)

    def start(
        self,
        *,
        age_limit: float = 0.1,
        duration: float | None = None,
        log: str | os.PathLike[str] | None = None,
        record: bool = True,
        report: bool = True,
        view: bool | str = False,
        wait: float | None = None,
    ) -> Live:
        """Starts the robot with Python beside the loop, which holds every joint until the first command.

        After the first command each must follow within `age_limit` seconds, or the robot is brought down gently.
        With the controller `targets` in its file, targets follow by `Live.targets`, and nothing is limited but by `[targets]`.
        With `wait` it returns when the robot is under control and every joint has a state; RobotError if that takes longer, in
        seconds. Use the result in a `with` statement; at its end the robot is brought down. `view` as in `run`.
        """
        _signals.begin()
        try:
            run = self._native.start_beside(
                age_limit=age_limit, duration=duration, log=_path(log), record=record, view=_view(view)
            )
            _print_view(run)
            live = Live(run, self.servos, report)
        except BaseException:
            _signals.end()
            raise
        if wait is not None:
            live._await(wait)
        return live

    def connect(self) -> Connection:
        """Opens the buses without a loop, for scans, single commands and raw frames."""
        return Connection(self._native.connect(), self.servos, self.buses)


def _name_mujoco() -> None:
    """Names the libmujoco of this Python's own package, which may be another than that of `python3`."""
    if not os.environ.get("KHZ_MUJOCO") and (found := importlib.util.find_spec("mujoco")) is not None:
        os.environ["KHZ_MUJOCO"] = (found.submodule_search_locations or [""])[0]


class LiveParameters(MutableMapping[str, float]):
    """The parameters of a running robot by their names. An assignment returns when a tick has taken the value;
    ValueError says why a value is not taken, and KeyError which names there are."""

    def __init__(self, native: _native.Run) -> None:
        self._native = native

    def __getitem__(self, name: str) -> float:
        return self._native.parameters[name]

    def __setitem__(self, name: str, value: float) -> None:
        self._native.set_parameters({name: value})

    def __delitem__(self, name: str) -> None:
        raise TypeError("a parameter stays as long as its robot runs")

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.parameters)

    def __len__(self) -> int:
        return len(self._native.parameters)

    def update(self, *others: Any, **values: float) -> None:
        """Changes several in one tick: all of them, or none."""
        self._native.set_parameters(dict(*others, **values))

    def describe(self) -> list[dict[str, Any]]:
        """Of each its `name`, `type`, `unit`, `min`, `max`, `default`, `text` and `value`."""
        described: list[dict[str, Any]] = json.loads(self._native.parameters.json())
        return described

    def __repr__(self) -> str:
        return f"<LiveParameters: {', '.join(f'{name}={value!r}' for name, value in self.items())}>"


class Live:
    """A robot running while Python does as it likes: `state()` and `send()` never wait for the loop."""

    def __init__(self, native: _native.Run, servos: list[str], report: bool = True) -> None:
        self._native = native
        self._report = report
        self._summary: Summary | None = None
        self.servos = servos
        """Names of the servos, in the order of all arrays."""
        self.parameters = LiveParameters(native)
        """The parameters that the robot file declares; `live.parameters["kp"] = 0.4` changes one."""
        # The loop's thread must be gone before the interpreter is.
        self._finalizer = weakref.finalize(self, _bring_down, native)

    def state(self) -> State:
        """The newest state, as arrays that are not overwritten."""
        return self._native.state()

    def command(self) -> Command:
        """A command to fill in: hold every joint where it is now."""
        return self._native.command()

    def send(
        self,
        command: Command | None = None,
        *,
        position: npt.ArrayLike | None = None,
        velocity: npt.ArrayLike | None = None,
        torque: npt.ArrayLike | None = None,
        over: float = 0.0,
    ) -> None:
        """Hands the loop a command: one from `command()`, or one made of the given values. Positions go to their
        targets in a straight line within `over` seconds; those of a robot with the controller `targets` as a chunk of two points,
        smoothly and within the limits. RobotError says why a robot is down that takes none any more."""
        self._check_up()
        command = command if command is not None else self.command()
        for name, value in (("position", position), ("velocity", velocity), ("torque", torque)):
            if value is not None:
                setattr(command, name, value)
        self._native.send(command, over)

    def targets(
        self, name: str, *, rate_hz: float | None = None, priority: int = 5, take: bool = False
    ) -> Targets:
        """Sends targets to a robot with the controller `targets`, under this name. `rate_hz` says how often single targets
        come; otherwise that is learned. A program of higher `priority` (0 to 9), or of the same with `take`, takes the robot
        from another one."""
        return Targets(self, name, rate_hz, priority, take)

    def inject(self, kind: str, servo: str | None = None, value: float = 1.0) -> None:
        """Puts a fault into the emulated devices; see `Connection.inject`."""
        self._native.inject(kind, _index(self.servos, servo), value)

    def arm(self) -> None:
        """Arms a robot that waits for it, with `supervisor.arming = "operator"`. KilohertzError if it does not wait."""
        self._native.arm()

    @property
    def over(self) -> bool:
        """Whether the robot is down."""
        return self._summary is not None or self._native.over

    def stop(self) -> Summary:
        """Brings the robot down gently, waits until it is, and returns the figures."""
        self._native.stop()
        return self.wait()

    def wait(self) -> Summary:
        """Waits until the robot is down, and returns the figures. Raises as `Robot.run`."""
        if self._summary is None:
            first = self._finalizer.detach()
            try:
                self._summary = _summary(self._native, self._native.finish(), self._report)
            finally:
                if first:
                    _signals.end()
        return self._summary

    def _check_up(self) -> None:
        """Raises why the robot is down, or comes down."""
        if self.over or self._native.phase in ("damping", "stopped", "fault"):
            raise RobotError(f"the robot is down: {self.wait()['end']}")

    def _await(self, seconds: float) -> None:
        """Until the robot is under control and every joint has a state."""
        until = time.monotonic() + seconds
        try:
            while self._native.phase != "active" or not np.isfinite(self.state().position).all():
                self._check_up()
                if time.monotonic() > until:
                    raise RobotError(f"the robot is not under control after {seconds} s: it is {self._native.phase}")
                time.sleep(0.002)
        except BaseException:
            if self._summary is None:
                with suppress(RobotError):
                    self.stop()
            raise

    def __repr__(self) -> str:
        return f"<Live: {', '.join(self.servos)}, {'down' if self.over else 'running'}>"

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._summary is not None or not self._finalizer.alive:
            return
        try:
            self.stop()
        except RobotError:
            # What is under way says more than what became of the robot.
            if error is None:
                raise


class Targets:
    """Sends targets of one program: see `Live.targets`. The loop keeps the motion smooth and within the limits of its robot file.

    `send` and `chunk` return None if the targets are taken, otherwise why not: `"late"`, `"held"` (another program has the
    robot), `"duplicate"`, `"out_of_order"`, `"future"` or `"flood"`."""

    def __init__(self, live: Live, name: str, rate_hz: float | None, priority: int, take: bool) -> None:
        self._live = live
        self._who: dict[str, Any] = {"from": name, "priority": priority, "take": take}
        if rate_hz is not None:
            self._who["rate_hz"] = rate_hz

    def send(
        self,
        position: npt.ArrayLike | Mapping[str, float],
        *,
        velocity: npt.ArrayLike | Mapping[str, float] | None = None,
        torque: npt.ArrayLike | Mapping[str, float] | None = None,
        at: float | None = None,
    ) -> str | None:
        """A target for every joint, or for some by their names, rad. `at` is the time of `time.monotonic()` it is meant for; without it,
        now."""
        values = {"position": position, "velocity": velocity, "torque": torque}
        given = {key: value for key, value in values.items() if value is not None}
        message: dict[str, Any] = {"at": [_microseconds_of(time.monotonic() if at is None else at)]}
        if isinstance(position, Mapping):
            message["joints"] = list(position)
            named = {key: dict(cast(Mapping[str, float], value)) for key, value in given.items()}
            message |= {key: [[float(value[name]) for name in position]] for key, value in named.items()}
        else:
            message |= {key: [_rows(cast(npt.ArrayLike, value))] for key, value in given.items()}
        return self._send(message)

    def chunk(
        self,
        positions: npt.ArrayLike,
        *,
        start: float,
        dt: float,
        names: Sequence[str] | None = None,
        velocity: npt.ArrayLike | None = None,
        torque: npt.ArrayLike | None = None,
    ) -> str | None:
        """Up to 256 targets, a row each, the first for `start` of `time.monotonic()`, one every `dt` seconds. They replace what was
        to come after the first."""
        rows = _rows(positions)
        message: dict[str, Any] = {
            "at": [_microseconds_of(start + number * dt) for number in range(len(rows))],
            "position": rows,
        }
        message |= {key: _rows(value) for key, value in (("velocity", velocity), ("torque", torque)) if value is not None}
        if names is not None:
            message["joints"] = list(names)
        return self._send(message)

    def hold(self, seconds: float) -> None:
        """Nothing will come for so long, and that is no silence."""
        self._send({"hold_s": seconds})

    def release(self) -> None:
        """This program is done: the robot stands, others may have it, and nothing more is expected."""
        self._send({"release": True})

    @property
    def status(self) -> dict[str, Any]:
        """How the robot stands, and what became of the targets of everybody who sends any."""
        answer = self._answer({"status": True})
        status: dict[str, Any] = answer["status"]
        return status

    def _send(self, message: dict[str, Any]) -> str | None:
        answer = self._answer(message)
        why: str | None = answer.get("refused")
        if why == "invalid":
            raise ValueError(answer["why"])
        if why == "not_active":
            self._live._check_up()
            raise KilohertzError("the robot is not under control yet: `start(wait=10)` waits until it is")
        return why

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        # ValueError for what is no number, which JSON cannot say.
        text = json.dumps(self._who | message, allow_nan=False)
        answer: dict[str, Any] = json.loads(self._live._native.target(text))
        return answer


def _rows(values: npt.ArrayLike) -> Any:
    return np.asarray(values, dtype=float).tolist()


def _microseconds_of(seconds: float) -> int:
    return round(seconds * 1e6)


def _bring_down(native: _native.Run) -> None:
    try:
        native.stop()
        native.finish()
    finally:
        _signals.end()


def _is_watched() -> bool:
    """Whether standard error is a terminal and still Python's own: not a notebook's, nor a test's."""
    own = sys.__stderr__
    return own is not None and sys.stderr is own and own.isatty()


def _summary(run: _native.Run, text: str, report: bool) -> Summary:
    summary = Summary(json.loads(text))
    summary["late"] = LateTicks(summary["late"])
    summary._run = run
    if report and summary["log"]:
        try:
            page = pathlib.Path(summary["log"]).with_suffix(".html")
            summary["report"] = os.fspath(run.write_report(os.fspath(page)))
        except OSError as why:
            # The run was what it was, whether or not it can be reported.
            warnings.warn(f"cannot write the report: {why}", RuntimeWarning, stacklevel=3)
    run.raise_end()
    if not summary["ended_well"]:
        error = RobotError(summary["end"])
        error.summary = summary
        raise error
    return summary


def _microseconds(values: Mapping[str, Any]) -> str:
    if not values["count"]:
        return "no value"
    return ", ".join(f"{name} {values[name] / 1000:.1f} µs" for name in ("p50", "p99", "max"))


def _view(view: bool | str) -> tuple[str, str] | None:
    """An address, and the folder of the programs that were installed with this package."""
    if view is False:
        return None
    return "127.0.0.1" if view is True else view, sysconfig.get_path("scripts")


def _print_view(run: _native.Run) -> None:
    if run.view is not None:
        print(f"live view: {run.view}", file=sys.stderr)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


class _Signals:
    """While robots run, SIGTERM and SIGHUP raise SystemExit on the main thread, where Python itself would be ended at once
    and leave the servos damping. Handlers of your own stay, and ignored signals stay ignored."""

    def __init__(self) -> None:
        self._runs = 0

    def begin(self) -> None:
        """A run begins."""
        self._runs += 1
        self._replace(signal.SIG_DFL, self._leave)

    def end(self) -> None:
        """A run is over."""
        self._runs -= 1
        if self._runs == 0:
            self._replace(self._leave, signal.SIG_DFL)

    @staticmethod
    def _leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    @staticmethod
    def _replace(old: _Handler, new: _Handler) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Python allows it nowhere else.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == old:
                signal.signal(number, new)


_signals = _Signals()


@contextmanager
def _ends_gently() -> Iterator[None]:
    """Signals that end a program bring the robot down first."""
    _signals.begin()
    try:
        yield
    finally:
        _signals.end()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection, and other Python threads let go of the interpreter at once."""
    collecting, interval = gc.isenabled(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        if collecting:
            gc.enable()
