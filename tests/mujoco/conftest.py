"""libmujoco as its Python wheels bring it: the version of the tests' environment, and others that are supported."""

import fcntl
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import mujoco
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: The oldest that is tried, that of the environment, and the newest: what `pip install` is told for each.
VERSIONS = {"3.1.6": ["mujoco==3.1.6"], "3.17.0": [], "4.0.0": ["mujoco==4.0.0", "mujoco-core==4.0.0"]}


@pytest.fixture(autouse=True)
def folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """MuJoCo writes its warnings to a file in the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def our_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """`khz` takes the library of the tests' environment."""
    monkeypatch.setenv("KHZ_MUJOCO", str(pathlib.Path(mujoco.__file__).parent))


@pytest.fixture(scope="session", params=VERSIONS)
def library(request: pytest.FixtureRequest) -> pathlib.Path:
    """The folder of a version's package."""
    packages = VERSIONS[request.param]
    if not packages:
        return pathlib.Path(mujoco.__file__).parent
    folder = ROOT / "target" / "mujoco" / request.param
    folder.mkdir(parents=True, exist_ok=True)
    # One of several processes that run these tests installs it, whole.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").is_file():
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
            subprocess.run([*install, *packages], check=True)
            (folder / "installed").touch()
    return folder / "mujoco"


@pytest.fixture(scope="session")
def drive() -> Callable[[pathlib.Path, pathlib.Path, int, float, list[str]], list[float]]:
    """Drives the hinges of a model through the body of emulated servos; the positions where it ends."""
    # As the Rust tests build it, so that it is there after them.
    build = ["cargo", "build", "--quiet", "--workspace", "--all-features", "--example", "drive"]
    subprocess.run(build, cwd=ROOT, check=True)

    def run(
        library: pathlib.Path, model: pathlib.Path, steps: int, torque: float, joints: list[str]
    ) -> list[float]:
        step = mujoco.MjModel.from_xml_path(str(model)).opt.timestep
        words = [str(ROOT / "target/debug/examples/drive"), str(model), repr(step), str(steps), str(torque)]
        environment = os.environ | {"KHZ_MUJOCO": str(library)}
        done = subprocess.run([*words, *joints], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [float(word) for word in done.stdout.strip("[]\n").split(",")]

    return run
