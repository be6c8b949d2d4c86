"""Robots and their runs: Python in the loop, or beside it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress

from . import _native
from ._notebook import progress, table
from ._signals import _ends_gently, _signals, _undisturbed
from .connection import Connection
from .controller import AnyController
from .live import Live
from .summary import Summary, _summary
from .templates import template


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


def _is_watched() -> bool:
    """Whether standard error is a terminal and still Python's own: not a notebook's, nor a test's."""
    own = sys.__stderr__
    return own is not None and sys.stderr is own and own.isatty()


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
