"""A robot that is started and ended with this process, in one of its own: `khz run`."""

import contextlib
import ctypes
import json
import logging
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

_LOG = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1
# As long as a robot may take to come down and write the rest of its log.
_DOWN_S = 10.0


class RobotFile:
    """A robot file whose controller follows targets."""

    def __init__(self, path: str, khz: str = "") -> None:
        """ValueError if it is none."""
        self.path, self.khz = path, khz or _installed()
        try:
            report = subprocess.run([self.khz, "check", path, "--json"], capture_output=True, text=True, timeout=60)
        except OSError as error:
            raise ValueError(f"`khz`: {self.khz} cannot be run ({error.strerror}); without it, the command installed beside LeRobot is") from error
        if report.returncode != 0:
            check = subprocess.run([self.khz, "check", path], capture_output=True, text=True, timeout=60)
            raise ValueError(_errors(check.stderr or check.stdout))
        found = json.loads(report.stdout)
        if found["controller"] != "targets":
            raise ValueError(
                f"{path}: its controller is `{found['controller']}`; LeRobot needs one that follows targets: `name = \"targets\"` below [controller]"
            )
        self.joints: list[str] = [servo["name"] for servo in found["values"]["servo"]]


class Child:
    """`khz run`, until `end`; it comes down, too, if this process dies."""

    def __init__(self, file: RobotFile, log: str = "") -> None:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="khz-"))
        self.at = f"unix:{self._folder / 'targets'}"
        words = [file.khz, "run", file.path, "--targets", self.at, "--no-report", *(["--log", log] if log else [])]
        with self._output.open("wb") as output:
            # A group of its own: Ctrl-C is for LeRobot, which brings the robot down when it has saved what it has.
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0, preexec_fn=_end_with(os.getpid())
            )

    @property
    def _output(self) -> pathlib.Path:
        return self._folder / "output"

    def is_over(self) -> bool:
        return self._process.poll() is not None

    def reason(self) -> str:
        """Why it is over, as it reports itself."""
        code = self._process.poll()
        if code is not None and code < 0:
            return f"the robot's process was ended by {signal.Signals(-code).name}"
        return _errors(self._output.read_text(errors="replace"))

    def end(self) -> None:
        """Brings the robot down and waits for that, 10 s at most."""
        if not self.is_over():
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DOWN_S)
        if not self.is_over():
            _LOG.error("the robot did not come down within %.0f s; its process is killed", _DOWN_S)
            self._process.kill()
            self._process.wait()
        elif self._process.returncode != 0:
            _LOG.warning("%s", self.reason())
        shutil.rmtree(self._folder, ignore_errors=True)


def _end_with(parent: int) -> Callable[[], None]:
    """Between fork and exec: the kernel brings the robot down when the thread that started it is gone. LeRobot connects on its main thread."""
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


def _errors(text: str) -> str:
    """Without the warnings before them, and not without end."""
    lines = text.strip().splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("error")), 0)
    return "\n".join(lines[first:])[:2000]


def _installed() -> str:
    beside = pathlib.Path(sys.executable).with_name("khz")
    found = str(beside) if beside.is_file() else shutil.which("khz")
    if found is None:
        raise ValueError("there is no command `khz`: `pip install kilohertz` brings it")
    return found
