"""The demo leaves nothing behind, however it ends."""

import os
import pathlib
import signal
import subprocess
import time

import pytest
from conftest import PATIENCE, World, wait_for


def children(pid: int) -> list[int]:
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def alive(pid: int) -> bool:
    try:
        return " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("end", ["twice", "pipe", "kill"])
def test_no_process_stays(world: World, end: str) -> None:
    home = world.folder / "tmp"
    home.mkdir()
    out = subprocess.PIPE if end == "pipe" else subprocess.DEVNULL
    demo = subprocess.Popen(
        world.program() + ["demo"],
        stdout=out,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"KHZ": world.khz, "TMPDIR": str(home)},
    )
    if demo.stdout:
        demo.stdout.close()
    seen: set[int] = set()
    try:

        def has_all() -> bool:
            if demo.poll() is None:
                seen.update(children(demo.pid))
            return len(seen) >= 10 or demo.poll() is not None

        wait_for(has_all, "ten programs")
        if end == "twice":
            demo.send_signal(signal.SIGINT)
            time.sleep(0.12)
            demo.send_signal(signal.SIGINT)
        if end == "kill":
            demo.kill()
        demo.wait(PATIENCE)
    finally:
        demo.kill()
        demo.wait()
    wait_for(lambda: not any(map(alive, seen)), "all have ended")
    if end != "kill":
        assert not list(home.iterdir()), "the folder is gone"
