"""The C library under test: what `cargo build --release --package khz-capi` made, installed as a package installs it."""

import ctypes
import os
import pathlib
import subprocess
from collections.abc import Callable, Sequence

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]

Compile = Callable[..., pathlib.Path]


def run(words: Sequence[object], folder: pathlib.Path, **options: object) -> "subprocess.CompletedProcess[str]":
    """Runs a command that must succeed."""
    done = tried(words, folder, **options)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


def tried(words: Sequence[object], folder: pathlib.Path, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the library is installed."""
    built = pathlib.Path(os.environ.get("KHZ_LIBRARY", TARGET / "release"))
    # Installed, then moved: nothing in it may know where it was.
    first = tmp_path_factory.mktemp("first") / "prefix"
    run([ROOT / "capi/install.sh", first, built], ROOT)
    return first.rename(tmp_path_factory.mktemp("moved") / "prefix")


@pytest.fixture(scope="session")
def compile(prefix: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles one source file against the installed library, every warning an error."""

    def compiled(source: pathlib.Path, compiler: str, standard: str, *flags: str) -> pathlib.Path:
        program = tmp_path_factory.mktemp("built") / source.stem
        words = [compiler, f"-std={standard}", *WARNINGS, *flags, f"-I{prefix}/include", source, "-o", program]
        run([*words, f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lkhz", "-lm"], ROOT)
        return program

    return compiled


@pytest.fixture(scope="session")
def library(prefix: pathlib.Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(prefix / "lib/libkhz.so"))
