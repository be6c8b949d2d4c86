"""The type stubs match what the module really has, and the package is as strictly typed as users may want it."""

import json
import pathlib
import subprocess
import sys

import kilohertz


def check(folder: pathlib.Path, *words: str) -> None:
    # From a folder without a `kilohertz`, so that the installed package is looked at.
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_match_the_native_module(tmp_path: pathlib.Path) -> None:
    check(tmp_path, "mypy.stubtest", "kilohertz._native")


def test_the_package_is_strictly_typed(tmp_path: pathlib.Path) -> None:
    check(tmp_path, "mypy", "--strict", "--package", "kilohertz")


def test_pyright_finds_nothing_in_the_package(tmp_path: pathlib.Path) -> None:
    # basedpyright is pyright with its own Node.js, so that nothing is fetched when it runs.
    package = pathlib.Path(kilohertz.__file__).parent
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"include": [str(package)], "typeCheckingMode": "standard"}))
    check(tmp_path, "basedpyright", "--pythonpath", sys.executable)
