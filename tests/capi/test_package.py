"""What is installed: headers, examples with every compiler and standard, pkg-config, CMake."""

import ctypes
import pathlib
import platform
import re
import shlex
import subprocess

import pytest
from conftest import ROOT, WARNINGS, Compile, run

EXAMPLES = ROOT / "capi/examples"
C = [("gcc", "c11"), ("clang", "c11")]
CPP = [("g++", "c++17"), ("g++", "c++20"), ("clang++", "c++17"), ("clang++", "c++20")]


@pytest.mark.parametrize(("compiler", "standard"), C + CPP)
def test_a_header_alone_compiles(compiler: str, standard: str, prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    is_c = standard == "c11"
    for header in ["kilohertz.h"] if is_c else ["kilohertz.h", "kilohertz.hpp"]:
        # Twice, and a name that it leaves free.
        source = tmp_path / f"alone.{'c' if is_c else 'cpp'}"
        source.write_text(f"#include <{header}>\n#include <{header}>\nint main(void) {{ return KHZ_OK; }}\n")
        run([compiler, f"-std={standard}", *WARNINGS, f"-I{prefix}/include", "-fsyntax-only", source], tmp_path)


@pytest.mark.parametrize(("compiler", "standard"), C + CPP)
def test_the_ten_line_controller_runs(compiler: str, standard: str, compile: Compile, tmp_path: pathlib.Path) -> None:
    source = EXAMPLES / ("ten_lines.c" if standard == "c11" else "ten_lines.cpp")
    program = compile(source, compiler, standard)
    (tmp_path / "robots").symlink_to(ROOT / "robots")
    done = run([program, "robots/pan_tilt.toml", "virtual"], tmp_path)
    assert re.search(r"^pan_tilt: [\d,]+ ticks, finished", done.stdout, re.M), done.stdout
    assert list(tmp_path.glob("*.tlog")) and list(tmp_path.glob("*.html"))


def test_a_robot_file_that_is_not_there_is_an_error(compile: Compile, tmp_path: pathlib.Path) -> None:
    for source, compiler, standard in [("ten_lines.c", "gcc", "c11"), ("ten_lines.cpp", "g++", "c++17")]:
        program = compile(EXAMPLES / source, compiler, standard)
        done = subprocess.run([program, "nowhere.toml"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("nowhere.toml: ")


def test_one_servo_by_hand(compile: Compile, tmp_path: pathlib.Path) -> None:
    done = run([compile(EXAMPLES / "one_servo.c", "clang", "c11")], tmp_path)
    assert done.stdout == "id 1 answers\nat 0.3 rad, 24 V, fault: none\n"


def test_a_parameter_changes_while_it_runs(compile: Compile, khz: str, tmp_path: pathlib.Path) -> None:
    done = run([compile(EXAMPLES / "parameter.cpp", "g++", "c++17")], tmp_path)
    assert done.stdout == "width 0.2 rad\n24 V\n"
    table = run([khz, "log", "cat", "parameter.tlog", "--record", "wanted", "--csv"], tmp_path).stdout
    assert table.startswith("time,position\n") and table.count("\n") > 100


def test_pkg_config_gives_the_flags(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    environment = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    source = EXAMPLES / "ten_lines.c"
    for words in (["--cflags", "--libs"], ["--static", "--cflags", "--libs"]):
        flags = shlex.split(run(["pkg-config", *words, "kilohertz"], tmp_path, env=environment).stdout)
        run(["gcc", "-std=c11", source, "-o", tmp_path / "ten_lines", *flags, "-lm"], tmp_path)
    version = run(["pkg-config", "--modversion", "kilohertz"], tmp_path, env=environment).stdout.strip()
    library = ctypes.CDLL(str(prefix / "lib/libkhz.so"))
    library.khz_version.restype = ctypes.c_char_p
    assert library.khz_version().decode() == version


def test_a_cmake_project_finds_the_package(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run(["cmake", "-S", EXAMPLES / "cmake_project", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}"], tmp_path)
    run(["cmake", "--build", tmp_path], tmp_path)
    for program in ("squat", "squat_static"):
        assert "quadruped: 2" in run([tmp_path / program], tmp_path).stdout
    assert "libkhz" not in run(["ldd", tmp_path / "squat_static"], tmp_path).stdout


def test_another_version_is_not_found(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(x NONE)\nfind_package(kilohertz 99.0)\n")
    done = run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}"], tmp_path)
    assert "99.0" in done.stderr and not (tmp_path / "b/kilohertz_DIR").exists()


def test_a_library_for_another_machine_is_not_found(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Otherwise only the linker would report it, without the package it came from."""
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(x NONE)\nfind_package(kilohertz)\n")

    def configured(*words: str) -> str:
        command = ["cmake", "-S", tmp_path, "-B", tmp_path / "b", "--fresh", f"-DCMAKE_PREFIX_PATH={prefix}", *words]
        stderr = run(command, tmp_path).stderr
        found = "kilohertz_DIR:PATH=/" in (tmp_path / "b/CMakeCache.txt").read_text()
        assert found == (not stderr)
        return stderr

    here, other = sorted(["x86_64", "aarch64"], key=lambda machine: machine != platform.machine())
    assert not configured()
    output = configured("-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={other}")
    assert f"({here}, not {other})" in output
    assert "(64 bit)" in configured("-DCMAKE_SIZEOF_VOID_P=4")


def test_the_library_exports_what_the_header_declares(prefix: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", (prefix / "include/kilohertz.h").read_text(), flags=re.S)
    declared = set(re.findall(r"\b(khz_\w+)\(", text)) - {"khz_update", "khz_start"}
    symbols = run(["nm", "-D", "--defined-only", prefix / "lib/libkhz.so"], tmp_path).stdout
    exported = {line.split()[-1] for line in symbols.splitlines()}
    assert declared == exported
    assert "SONAME               libkhz.so.0" in run(["objdump", "-p", prefix / "lib/libkhz.so"], tmp_path).stdout


def test_nothing_installed_names_this_machine(prefix: pathlib.Path) -> None:
    installed = [path for path in prefix.rglob("*") if path.is_file() and "libkhz" not in path.name]
    assert {path.name for path in installed} == {
        "kilohertz.h", "kilohertz.hpp", "kilohertz.pc", "kilohertzConfig.cmake", "kilohertzConfigVersion.cmake"
    }  # fmt: skip
    assert not any("@" in path.read_text() or str(ROOT) in path.read_text() for path in installed)
