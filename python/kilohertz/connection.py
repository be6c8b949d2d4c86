"""Servos without a loop: scan, single commands, whole cycles.

>>> with kilohertz.Robot.emulated(servos=2).connect() as robot:         # doctest: +SKIP
...     servo = robot.servo("servo_1")
...     servo.position(0.3)
...     servo.query().position

Calls block until the reply is there, and release the interpreter meanwhile: in asynchronous programs write
`await asyncio.to_thread(servo.query)`. Calls from several threads wait for one another.
"""

from __future__ import annotations

import math
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from . import _native
from ._native import Command, Reply, State

_TRIES = 3


@dataclass(frozen=True)
class Found:
    """A servo that answered a scan."""

    bus: str
    id: int
    uuid: uuid.UUID


class Connection:
    """A robot's buses, open. Nothing moves unless told to. Use it in a `with` statement: at its end every servo that
    was commanded gets the stop command."""

    def __init__(self, native: _native.Connection, servos: list[str], buses: list[str]) -> None:
        self._native = native
        self._commanded: set[int] = set()
        self.servos = servos
        """Names of the servos."""
        self.buses = buses
        """Names of the buses."""

    def __repr__(self) -> str:
        return f"<Connection: {', '.join(self.servos)} on {', '.join(self.buses)}>"

    def scan(self, timeout: float = 0.05) -> list[Found]:
        """The servos that answer on each bus, whether the robot file has them or not."""
        found = self._native.scan(timeout)
        return [Found(bus, number, uuid.UUID(bytes=bytes(unique))) for bus, number, unique in found]

    def servo(self, name: str) -> Servo:
        """The servo of this name."""
        if name not in self.servos:
            raise KeyError(f"no servo is called {name!r}; there are: {', '.join(self.servos)}")
        return Servo(self, name, self.servos.index(name))

    def arrays(self) -> tuple[State, Command]:
        """A state and a command for `cycle`, all outputs off."""
        return self._native.arrays()

    def cycle(self, command: Command, state: State) -> int:
        """One whole bus cycle: commands to all servos, replies from all into `state`. Returns how many servos did not
        answer by the robot file's bus deadline. There is no supervisor: `Robot.run` has one."""
        self._commanded.update(range(len(self.servos)))
        return self._native.cycle(command, state)

    def inject(self, kind: str, servo: str | None = None, value: float = 1.0) -> None:
        """Puts a fault into the emulated devices: `silent`, `lying` (NaN), `stuck`, `asleep` (stays off), `stays_on` (ignores damping and
        stop), `frozen`, `twice` (every reply), `unmeasured` (no temperature and voltage) (value 0 ends them), `fault`, `mode` and
        `mode_mostly` (in four of five replies; value is the number), `slow` (µs), `altered` (percent of the replies), `jump` (rad), `reboot`, `supply` (V) for a servo; `imu_gone`,
        `imu_frozen`."""
        self._native.inject(kind, _index(self.servos, servo), value)

    def close(self) -> None:
        """Stops every servo that was commanded, and closes the buses. Warns of servos that do not answer to it: they go
        on until their own watchdogs run out, or for ever if they were told to."""
        silent = [self.servos[servo] for servo in sorted(self._commanded) if not self._stop(servo)]
        self._commanded.clear()
        self._native.close()
        if silent:
            warnings.warn(f"not known to have stopped: {', '.join(silent)}", RuntimeWarning, stacklevel=2)

    def _stop(self, servo: int) -> bool:
        for _ in range(_TRIES):
            try:
                self._native.stop(servo)
            except _native.ClosedError:
                raise
            except _native.KilohertzError:
                continue
            return True
        return False

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except _native.ClosedError:
            pass


class Servo:
    """One servo. Every method sends one frame and returns the reply to it; NoReplyError if there is none. Angles are the
    joint's, in rad. A servo that follows a position damps by itself when no command comes within its watchdog time (0.1 s
    from the factory; set another with `watchdog`, NaN for never); one that damps goes on damping."""

    def __init__(self, connection: Connection, name: str, index: int) -> None:
        self._connection = connection
        self._index = index
        self.name = name
        """Its name."""

    def __repr__(self) -> str:
        return f"<Servo {self.name}>"

    def query(self, registers: Mapping[int, str] | None = None, timeout: float = 0.02) -> Reply:
        """Asks for its state, and for further registers: {number: "int8" | "int16" | "int32" | "float"}."""
        return self._connection._native.query(self._index, dict(registers or {}), timeout)

    def stop(self, timeout: float = 0.02) -> Reply:
        """Output off; clears a fault."""
        return self._connection._native.stop(self._index, timeout)

    def zero_velocity(self, *, kd_scale: float = 1.0, watchdog: float = 0.0, timeout: float = 0.02) -> Reply:
        """Damping without holding a position."""
        self._connection._commanded.add(self._index)
        return self._connection._native.damp(self._index, kd_scale, watchdog, timeout)

    def position(
        self,
        position: float = math.nan,
        *,
        velocity: float = 0.0,
        torque: float = 0.0,
        kp_scale: float = 1.0,
        kd_scale: float = 1.0,
        max_torque: float = math.nan,
        watchdog: float = 0.0,
        registers: Mapping[int, str] | None = None,
        timeout: float = 0.02,
    ) -> Reply:
        """Follow a position (NaN: from wherever it is) and velocity, adding a torque."""
        values = (position, velocity, torque, kp_scale, kd_scale, max_torque, watchdog)
        self._connection._commanded.add(self._index)
        return self._connection._native.position(self._index, values, dict(registers or {}), timeout)

    def velocity(self, velocity: float, *, max_torque: float = math.nan, watchdog: float = 0.0) -> Reply:
        """Turn with a velocity from wherever it is."""
        return self.position(math.nan, velocity=velocity, max_torque=max_torque, watchdog=watchdog)

    def torque(self, torque: float, *, watchdog: float = 0.0) -> Reply:
        """Push with a torque, without holding position or velocity."""
        return self.position(math.nan, torque=torque, kp_scale=0.0, kd_scale=0.0, watchdog=watchdog)

    def set_zero(self, *, store: bool = False, timeout: float = 0.05) -> Reply:
        """Makes its present position its zero. Its output must be off. `store`: it keeps its settings without power, too.

        Returns what it says afterwards; raises ValueError if it refuses or did not take it. So do the next two."""
        return self._connection._native.set_zero(self._index, store, timeout)

    def set_id(self, id: int, *, store: bool = False, timeout: float = 0.05) -> Reply:
        """Gives it another id, which no other servo on the bus may have. This connection still asks for the old one: correct the
        robot file and connect again."""
        reply = self._connection._native.set_id(self._index, id, store, timeout)
        self._connection._commanded.discard(self._index)
        return reply

    def set_watchdog(self, seconds: float, *, store: bool = False, timeout: float = 0.05) -> Reply:
        """Sets how long it waits for a frame before it acts by itself; 0: for ever. A run sets its own (`watchdog_s`)."""
        return self._connection._native.set_watchdog(self._index, seconds, store, timeout)


def _index(servos: list[str], servo: str | None) -> int:
    if servo is None:
        return 0
    if servo not in servos:
        raise KeyError(f"no servo is called {servo!r}; there are: {', '.join(servos)}")
    return servos.index(servo)
