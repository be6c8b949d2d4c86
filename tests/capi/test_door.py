"""The library in use and in wrong use: plain, under valgrind, with the sanitizers, and from Python's ctypes."""

import ctypes
import json
import math
import pathlib

import pytest
from conftest import ROOT, Compile, run, tried

HERE = pathlib.Path(__file__).parent
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
VALGRIND = [
    *["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"],
    f"--suppressions={HERE / 'valgrind.supp'}",
]


def program(compile: Compile, name: str, compiler: str, *flags: str) -> pathlib.Path:
    return compile(HERE / name, compiler, "c11" if name.endswith(".c") else "c++17", *flags)


@pytest.mark.parametrize("kind", ["plain", "valgrind", "sanitizers"])
def test_wrong_use_is_refused(kind: str, compile: Compile, tmp_path: pathlib.Path) -> None:
    built = program(compile, "wrong_use.c", "gcc", *(SANITIZED if kind == "sanitizers" else []))
    done = run([*(VALGRIND if kind == "valgrind" else []), built], tmp_path)
    assert done.stdout == "refused\n" and done.stderr == ""


@pytest.mark.parametrize("kind", ["plain", "valgrind", "sanitizers"])
def test_cpp_sees_and_commands_a_robot(kind: str, compile: Compile, khz: str, tmp_path: pathlib.Path) -> None:
    built = program(compile, "checks.cpp", "g++", *(SANITIZED if kind == "sanitizers" else []))
    done = run([*(VALGRIND if kind == "valgrind" else []), built, "mine.tlog"], tmp_path)
    assert done.stdout == "checked\n" and done.stderr == ""
    table = run([khz, "log", "cat", "mine.tlog", "--record", "mine", "--csv"], tmp_path).stdout
    rows = [line.split(",") for line in table.splitlines()[1:]]
    assert len(rows) > 300 and all(float(row[-1]) == 2.0 * float(row[-2]) for row in rows)


@pytest.mark.parametrize("kind", ["plain", "sanitizers"])
def test_a_run_that_its_controller_destroys_comes_down(kind: str, compile: Compile, tmp_path: pathlib.Path) -> None:
    """What it leaves behind is never freed: that is documented, and no leak to look for."""
    built = program(compile, "checks.cpp", "g++", *(SANITIZED if kind == "sanitizers" else []))
    done = run([built, "destroyed-within"], tmp_path, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert done.stdout == "checked\n" and done.stderr == ""


def test_a_missing_check_would_be_noticed(compile: Compile, tmp_path: pathlib.Path) -> None:
    """The judges judge: a use after free in a controller's program fails both."""
    source = tmp_path / "wrong.c"
    source.write_text(
        "#include <kilohertz.h>\n#include <stdio.h>\n"
        "int main(void) { khz_robot *robot = khz_robot_quadruped(); const char *name = khz_robot_name(robot);\n"
        "  khz_robot_free(robot); return puts(name) < 0; }\n"
    )
    assert tried([*VALGRIND, compile(source, "gcc", "c11")], tmp_path).returncode == 9
    assert "use-after-free" in tried([compile(source, "gcc", "c11", *SANITIZED)], tmp_path).stderr


class State(ctypes.Structure):
    """The first fields of khz_state."""

    _fields_ = [
        ("tick", ctypes.c_uint64),
        ("time", ctypes.c_double),
        ("dt", ctypes.c_double),
        ("elapsed", ctypes.c_double),
        ("now_ns", ctypes.c_int64),
        ("servos", ctypes.c_size_t),
        ("position", ctypes.POINTER(ctypes.c_double)),
    ]


class Command(ctypes.Structure):
    """The first fields of khz_command."""

    _fields_ = [
        ("servos", ctypes.c_size_t),
        ("mode", ctypes.POINTER(ctypes.c_uint8)),
        ("position", ctypes.POINTER(ctypes.c_double)),
    ]


def test_ctypes_runs_a_robot(library: ctypes.CDLL, tmp_path: pathlib.Path) -> None:
    update_type = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(State), ctypes.POINTER(Command), ctypes.c_void_p)
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in [
        ("khz_robot_load", pointer, [text]),
        ("khz_robot_set_controller", ctypes.c_int, [pointer, pointer, update_type, pointer]),
        ("khz_robot_set_duration", ctypes.c_int, [pointer, ctypes.c_double]),
        ("khz_robot_set_virtual_time", ctypes.c_int, [pointer, ctypes.c_bool]),
        ("khz_robot_set_log", ctypes.c_int, [pointer, text]),
        ("khz_robot_start", pointer, [pointer]),
        ("khz_run_wait", ctypes.c_int, [pointer]),
        ("khz_run_summary", text, [pointer]),
        ("khz_run_free", None, [pointer]),
        ("khz_robot_free", None, [pointer]),
        ("khz_last_error", text, []),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    reached = []

    @update_type  # type: ignore[untyped-decorator]
    def update(state, command, _):  # type: ignore[no-untyped-def]
        for servo in range(command[0].servos):
            command[0].position[servo] = 0.2 * math.sin(state[0].time)
        reached.append(state[0].position[0])

    robot = library.khz_robot_load(str(ROOT / "robots/pan_tilt.toml").encode())
    assert robot, library.khz_last_error()
    assert library.khz_robot_set_controller(robot, None, update, None) == 0
    assert library.khz_robot_set_virtual_time(robot, True) == 0 and library.khz_robot_set_log(robot, None) == 0
    assert library.khz_robot_set_duration(robot, 2.0) == 0
    run = library.khz_robot_start(robot)
    assert run and library.khz_run_wait(run) == 0, library.khz_last_error()
    summary = json.loads(library.khz_run_summary(run))
    library.khz_run_free(run)
    library.khz_robot_free(robot)
    assert summary["robot"] == "pan_tilt" and summary["clock"] == "virtual" and summary["ended_well"]
    assert len(reached) > 1000 and max(reached) > 0.15
