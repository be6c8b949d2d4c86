"""The C library of the tarball, as a user has it who has nothing else: no clone, no Rust."""

import os
import pathlib
import shutil

from release import Find, run

# Neither the environment of the person who runs the tests nor a `khz` on its path.
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def test_a_project_of_ones_own_runs_a_quadruped(made: Find, tmp_path: pathlib.Path) -> None:
    run("tar", "--extract", "--file", made("khz-*-x86_64-linux.tar.gz"), cwd=tmp_path)
    (prefix,) = tmp_path.glob("khz-*")
    # The prefix may be moved.
    prefix = prefix.rename(tmp_path / "elsewhere")
    project = shutil.copytree(prefix / "share/doc/khz/capi/cmake_project", tmp_path / "project")
    build = tmp_path / "build"
    run("cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", env=ENVIRONMENT)
    run("cmake", "--build", build, env=ENVIRONMENT)
    for program in ("squat", "squat_static"):
        work = tmp_path / f"run of {program}"
        work.mkdir()
        output = run(build / program, cwd=work, env=ENVIRONMENT)
        assert "quadruped: 2" in output, output
        assert "<html" in (work / "squat.html").read_text() and (work / "squat.tlog").is_file()
        columns = run(prefix / "bin/khz", "log", "cat", "squat.tlog", "--record", "swing", "--csv", cwd=work).splitlines()
        assert columns[0] == "time,target,behind" and len(columns) > 1000
    assert "libkhz" not in run("ldd", build / "squat_static")


def test_the_library_names_no_folder_of_who_built_it(made: Find, tmp_path: pathlib.Path) -> None:
    run("tar", "--extract", "--file", made("khz-*-x86_64-linux.tar.gz"), cwd=tmp_path)
    homes = [str(pathlib.Path.home()).encode() + b"/.cargo", os.fsencode(pathlib.Path(__file__).parents[2]) + b"/"]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files and [path for path in files if any(home in path.read_bytes() for home in homes)] == []
