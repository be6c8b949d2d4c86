"""Running commands, here and in another root directory."""

import os
import pathlib
import subprocess
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The one file of a release whose name is like a pattern.
Find = Callable[[str], pathlib.Path]


def run(*words: "str | pathlib.Path", **options: object) -> str:
    """Runs a command that must succeed; what it printed on both outputs."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{words} exited with {done.returncode}:\n{done.stdout}"
    return str(done.stdout)


def within(folder: pathlib.Path, at: str = "/") -> Callable[[], None]:
    """For `preexec_fn`: makes a folder the root directory."""

    def change() -> None:
        os.chroot(folder)
        os.chdir(at)

    return change
