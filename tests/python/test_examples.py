"""The wheel installs into a clean environment, and the tutorial's programs run there as a reader would run them."""

import os
import pathlib
import subprocess
import sys
import venv

import pytest

# The first one waits for downloads.
pytestmark = pytest.mark.timeout(900)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
EXAMPLES = ROOT / "python/examples"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The Python of an environment with nothing but the wheel and what it asks for."""
    wheels = list((TARGET / "wheels").glob("kilohertz-*.whl"))
    if len(wheels) != 1:
        pytest.fail("build the wheel first: cargo xtask test tests/python")
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    # The versions the other tests have, so that a new release of others does not fail ours.
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "tests/requirements.txt"]
    for last in (False, False, True):
        if subprocess.run([*install, wheels[0], "matplotlib"], check=last).returncode == 0:
            break
    return python


def run(python: pathlib.Path, folder: pathlib.Path, name: str, *words: str) -> str:
    command = [python, EXAMPLES / name, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_first_servo(python: pathlib.Path, tmp_path: pathlib.Path) -> None:
    output = run(python, tmp_path, "first_servo.py")
    assert "bus main: id 1" in output
    assert "is at 0.000 rad" in output


def test_bode(python: pathlib.Path, tmp_path: pathlib.Path) -> None:
    output = run(python, tmp_path, "bode.py", "bode.png")
    assert (tmp_path / "bode.png").stat().st_size > 10_000
    lowest = float(output.splitlines()[1].split()[1])
    assert lowest == pytest.approx(0.0, abs=1.0), output


def test_stand_and_read_its_log(python: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "log: stand.tlog" in run(python, tmp_path, "stand.py", "stand.tlog")
    output = run(python, tmp_path, "read_log.py", "stand.tlog")
    assert "1000.0 Hz" in output
    assert "servo: " in output


def test_the_examples_are_strictly_typed(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", *sorted(EXAMPLES.glob("*.py"))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
