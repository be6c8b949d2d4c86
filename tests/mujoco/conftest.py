"""libmujoco as its Python wheels bring it: the version of the tests' environment, and others that are supported."""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import mujoco
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Where what comes over the network is kept.
CACHE = ROOT / os.environ.get("KHZ_CACHE", "target")
#: The oldest that is tried, that of the environment, and the newest: the arguments of `pip install` for each.
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
    folder = CACHE / "mujoco" / request.param
    if not (folder / "mujoco").is_dir():
        # Complete when it has its name: an interrupted installation is none.
        part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(part)]
        subprocess.run([*install, *packages], check=True)
        try:
            part.rename(folder)
        except OSError:
            # Another run was quicker.
            assert (folder / "mujoco").is_dir()
            shutil.rmtree(part)
    return folder / "mujoco"


@pytest.fixture(scope="session")
def drive(
    example: Callable[[str], pathlib.Path],
) -> Callable[[pathlib.Path, pathlib.Path, int, float, list[str]], list[float]]:
    """Drives the hinges of a model through the body of emulated servos; the positions where it ends."""
    program = example("drive")

    def run(
        library: pathlib.Path, model: pathlib.Path, steps: int, torque: float, joints: list[str]
    ) -> list[float]:
        step = mujoco.MjModel.from_xml_path(str(model)).opt.timestep
        words = [str(program), str(model), repr(step), str(steps), str(torque)]
        environment = os.environ | {"KHZ_MUJOCO": str(library)}
        done = subprocess.run([*words, *joints], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [float(word) for word in done.stdout.strip("[]\n").split(",")]

    return run
