"""A robot's socket for targets: one JSON object a message, and an answer to each."""

import itertools
import json
import os
import socket
import time
from typing import Any

Message = dict[str, Any]

_LONGEST = 1 << 16
_PATIENCE_S = 2.0
# As long as a robot may take to come down.
_LAST_WORDS_S = 10.0


class RobotDown(RuntimeError):
    """The robot is not under control, or not there: the text says why."""


class Connection:
    """To one robot, for one program. Not for several threads at a time."""

    def __init__(self, at: str, name: str, **about: Any) -> None:
        """Connects to `unix:PATH` as the program `name`; `about` goes with every message with targets. RobotDown if no robot is there."""
        self._at, self._name, self._about = at, name, about
        self._numbers = itertools.count(1)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.settimeout(_PATIENCE_S)
            self._socket.connect(os.fspath(_path(at)))
        except OSError as error:
            self._socket.close()
            raise RobotDown(_refused(at, error)) from error

    def send(self, **points: Any) -> Message:
        """Sends targets for now. RuntimeError if they are not taken, RobotDown if the robot is not under control."""
        return self._taken(self.ask(t=time.monotonic_ns() // 1000, **self._about, **points))

    def look(self) -> Message:
        """The answer with the state of the joints. Errors as `send`."""
        return self._taken(self.ask(state=True))

    def _taken(self, answer: Message) -> Message:
        match answer.get("refused"):
            case None:
                return answer
            case "not_active":
                raise RobotDown(self.reason() or f"the robot at {self._at} is not under control")
            case "held" if answer["by"] == self._name:
                raise RuntimeError(f"another program is called `{self._name}` at {self._at}: give each an `id` of its own")
            case "held":
                raise RuntimeError(f"the program `{answer['by']}` has the robot at {self._at}")
            case "invalid":
                raise ValueError(answer["why"])
            case why:
                raise RuntimeError(f"the robot at {self._at} does not take it: {why}")

    def ask(self, **message: Any) -> Message:
        """The answer to one message. RobotDown if there is none within two seconds, or the robot came down."""
        number = next(self._numbers)
        text = json.dumps({"from": self._name, "seq": number, **message}, allow_nan=False)
        try:
            self._socket.send(text.encode())
            while (answer := self._receive()).get("seq") != number:
                # To a message whose answer came too late.
                pass
        except TimeoutError as error:
            raise RobotDown(f"the robot at {self._at} does not answer") from error
        except OSError as error:
            raise RobotDown(self.reason() or f"the robot at {self._at} is gone: {error}") from error
        return answer

    def close(self) -> None:
        """The robot is informed that nothing more is to come, and the socket is closed. Never fails."""
        try:
            self._socket.settimeout(_PATIENCE_S)
            self._socket.send(json.dumps({"from": self._name, "release": True}).encode())
            self._socket.recv(_LONGEST)
        except OSError:
            pass
        self._socket.close()

    def _receive(self) -> Message:
        data = self._socket.recv(_LONGEST)
        if not data:
            raise ConnectionResetError("it has closed the connection")
        answer: Message = json.loads(data)
        if "down" in answer:
            raise RobotDown(_down(answer))
        return answer

    def reason(self) -> str | None:
        """The robot's reason, if it is coming down and sends it in time."""
        end = time.monotonic() + _LAST_WORDS_S
        while (left := end - time.monotonic()) > 0:
            try:
                self._socket.settimeout(left)
                data = self._socket.recv(_LONGEST)
            except ConnectionResetError:
                # Reported once, before what still waits.
                continue
            except OSError:
                return None
            finally:
                self._socket.settimeout(_PATIENCE_S)
            if not data:
                return None
            if "down" in (answer := json.loads(data)):
                return _down(answer)
        return None


def _down(answer: Message) -> str:
    return f"the robot is down: {answer['down']}"


def _path(at: str) -> str:
    path = at.removeprefix("unix:")
    if path == at or not path:
        raise ValueError(f"`{at}` is no robot: write `unix:PATH`, as its robot file has it under `[targets] from`")
    return path


def _refused(at: str, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nobody listens at {at} any more: its robot has ended without removing it"
    if isinstance(error, FileNotFoundError):
        return f"there is no robot at {at}: start it with `khz run`; its robot file says `from = \"{at}\"` below [targets]"
    if isinstance(error, TimeoutError):
        return f"the robot at {at} accepts nobody"
    return f"cannot connect to {at}: {error}"
