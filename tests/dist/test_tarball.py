"""The static command: in a folder with nothing else, as root directory and without environment."""

import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest
from release import ROOT, Find, run, within
from robots import lenient
from elftools.elf.elffile import ELFFile

MACHINES = ["x86_64", "aarch64"]


@pytest.fixture(scope="session")
def unpacked(made: Find, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("tarball")
    run("tar", "--extract", "--file", made("khz-*-x86_64-linux.tar.gz"), cwd=folder)
    (inner,) = folder.iterdir()
    return inner


def test_two_commands_to_a_robot(unpacked: pathlib.Path, tmp_path: pathlib.Path) -> None:
    run(unpacked / "bin/khz", "run", "--virtual", "--duration", "1s", cwd=tmp_path, env={})
    assert "<html" in (tmp_path / "run.html").read_text()


def test_it_needs_nothing(root: None, unpacked: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """No library, no /proc, no /tmp, no environment: the loop itself, in real time, at its own rate."""
    shutil.copy(unpacked / "bin/khz", tmp_path)
    robot = (unpacked / "share/doc/khz/robots/pan_tilt.toml").read_text()
    # How the loop keeps its rate on a busy machine is no affair of this test.
    (tmp_path / "pan_tilt.toml").write_text(lenient(robot))
    output = run("/khz", "run", "--duration", "1s", "/pan_tilt.toml", preexec_fn=within(tmp_path), env={})
    assert "pan_tilt" in output and (tmp_path / "pan_tilt.html").is_file() and (tmp_path / "pan_tilt.tlog").is_file()


def test_every_robot_is_accepted(unpacked: pathlib.Path, tmp_path: pathlib.Path) -> None:
    robots = sorted((unpacked / "share/doc/khz/robots").glob("*.toml"))
    assert len(robots) >= 8
    for robot in robots:
        run(unpacked / "bin/khz", "check", robot, cwd=tmp_path)


def test_that_it_cannot_open_mujoco_is_reported_with_what_can(unpacked: pathlib.Path, tmp_path: pathlib.Path) -> None:
    robot = unpacked / "share/doc/khz/robots/quadruped_mujoco.toml"
    done = subprocess.run(
        [unpacked / "bin/khz", "check", robot], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "this khz is the static program, which cannot open libraries such as MuJoCo" in done.stderr
    assert "not installed" not in done.stderr


def test_manual_completions_and_licences_are_there(unpacked: pathlib.Path) -> None:
    manual = {page.name for page in (unpacked / "share/man/man1").iterdir()}
    assert {"khz.1", "khz-run.1", "khz-log.1"} <= manual
    completions = ["bash-completion/completions/khz", "zsh/site-functions/_khz", "fish/vendor_completions.d/khz.fish"]
    for file in completions:
        assert "doctor" in (unpacked / "share" / file).read_text()
    run("bash", "-n", unpacked / "share" / completions[0])
    assert "Rich Felker" in (unpacked / "LICENSE-musl.txt").read_text()
    assert "clap v" in (unpacked / "LICENSE-THIRD-PARTY.txt").read_text()
    assert "Rust Standard Library" in (unpacked / "LICENSE-RUST-LIBRARY.html").read_text()
    assert (unpacked / "LICENSE-MIT").is_file() and (unpacked / "LICENSE-APACHE").is_file()


def test_the_licences_of_the_single_file_are_beside_it(made: Find) -> None:
    with tarfile.open(made("khz-*-licenses.tar.gz")) as archive:
        names = {pathlib.PurePath(member.name).name for member in archive if member.isfile()}
    ours, others = {"LICENSE-MIT", "LICENSE-APACHE"}, {"LICENSE-THIRD-PARTY.txt", "LICENSE-RUST-LIBRARY.html"}
    assert names == ours | others | {"LICENSE-musl.txt"}


def test_its_bytes_depend_on_the_commit_alone(made: Find) -> None:
    with tarfile.open(made("khz-*-x86_64-linux.tar.gz")) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    (time,) = {member.mtime for member in members}
    assert str(time) in run("git", "log", "-100", "--format=%ct", cwd=ROOT).split()


@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_is_static_and_its_symbols_are_beside(made: Find, machine: str) -> None:
    if machine == "aarch64" and "KHZ_DIST" in os.environ:
        pytest.skip("only x86_64 was built for these tests")
    file = made(f"khz-*-{machine}-linux")
    with file.open("rb") as stream, made(f"khz-*-{machine}-linux.debug").open("rb") as debug:
        program, symbols = ELFFile(stream), ELFFile(debug)
        assert all(segment["p_type"] != "PT_INTERP" for segment in program.iter_segments())
        assert program.get_section_by_name(".symtab") is None
        link = program.get_section_by_name(".gnu_debuglink")
        assert link is not None and link.data().split(b"\0")[0].decode() == pathlib.Path(debug.name).name
        # What is built quickly for these tests has none.
        if "KHZ_DIST" not in os.environ:
            assert symbols.get_section_by_name(".symtab") is not None


def test_checksums_are_those_of_the_files(made: Find) -> None:
    sums = made("SHA256SUMS")
    run("sha256sum", "--check", "--strict", sums.name, cwd=sums.parent)
    named = {line.split(maxsplit=1)[1] for line in sums.read_text().splitlines()}
    assert named == {file.name for file in sums.parent.iterdir()} - {sums.name}
