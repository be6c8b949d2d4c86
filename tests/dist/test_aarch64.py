"""What is made for 64-bit ARM, under qemu's user-mode emulation: the only ARM processor it has met.

Emulation shows that the programs are right: same figures, same logs as on x86_64. It shows nothing of time, and
next to nothing of memory order: qemu's threads see each other's writes as this machine's do.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from release import Find, run

# Robots that run without a device, without MuJoCo and in virtual time.
ROBOTS = ["arm", "leg3", "mixed", "openarm_like", "pan_tilt", "quadruped", "quadruped_walk"]
# What a run reports of this machine, not of the robot. No figure of a run in virtual time is.
OF_THE_MACHINE = {"passport", "steal_ns", "steal_loop_cpu_ns", "log"}
QEMU = "qemu-aarch64-static"


@pytest.fixture(scope="session")
def qemu(made: Find) -> str:
    if "KHZ_DIST" in os.environ and not list(pathlib.Path(os.environ["KHZ_DIST"]).glob("*aarch64*")):
        pytest.skip("only x86_64 was built for these tests: `cargo xtask dist khz tarball deb wheel --profile release` makes all")
    if not shutil.which(QEMU):
        pytest.skip(f"no {QEMU}: type `apt-get install qemu-user-static`")
    return QEMU


@pytest.fixture(scope="session")
def khz(qemu: str, made: Find) -> "list[str | pathlib.Path]":
    """The command that runs ARM's `khz`."""
    return [qemu, made("khz-*-aarch64-linux")]


@pytest.fixture(scope="session")
def tarballs(qemu: str, made: Find, tmp_path_factory: pytest.TempPathFactory) -> "dict[str, pathlib.Path]":
    """What is in those of both machines."""
    folder = tmp_path_factory.mktemp("tarballs")
    for machine in ("x86_64", "aarch64"):
        run("tar", "--extract", "--file", made(f"khz-*-{machine}-linux.tar.gz"), cwd=folder)
    return {machine: next(folder.glob(f"khz-*-{machine}-linux")) for machine in ("x86_64", "aarch64")}


def test_it_runs_and_reports(khz: "list[str | pathlib.Path]", tmp_path: pathlib.Path) -> None:
    assert run(*khz, "--version").startswith("khz ")
    run(*khz, "run", "--virtual", "--duration", "1s", cwd=tmp_path)
    assert "<html" in (tmp_path / "run.html").read_text()
    assert "servo" in run(*khz, "log", "info", "run.tlog", cwd=tmp_path)
    for words in (["-o", "run.mcap"], ["-o", "tables.parquet"], ["--format", "csv", "-r", "servo", "-o", "tables"]):
        run(*khz, "log", "export", "run.tlog", *words, cwd=tmp_path)
    output = json.loads(run(*khz, "drill", "campaign", "--scenarios", "5", "--json", cwd=tmp_path))
    assert output["broken"] == {}


def samples(khz: "list[str | pathlib.Path]", log: str, folder: pathlib.Path) -> "list[object]":
    """All of a log, but when it was and on which machine."""
    lines = run(*khz, "log", "cat", log, cwd=folder).splitlines()
    read = [json.loads(line) for line in lines]
    return [(each["record"], {**each["value"], "passport": None}) for each in read]


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_virtual_run_is_the_same_on_both_machines(
    robot: str, qemu: str, tarballs: "dict[str, pathlib.Path]", tmp_path: pathlib.Path
) -> None:
    summaries, logged = [], []
    for machine, runner in (("x86_64", []), ("aarch64", [qemu])):
        khz = [*runner, tarballs[machine] / "bin/khz"]
        file = tarballs[machine] / f"share/doc/khz/robots/{robot}.toml"
        run(*khz, "check", file)
        words = ["run", "--virtual", "--duration", "1s", "--no-report", "--json", "--log", f"{machine}.tlog", file]
        done = subprocess.run([str(word) for word in [*khz, *words]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        summaries.append({key: value for key, value in json.loads(done.stdout).items() if key not in OF_THE_MACHINE})
        # Read by this machine's own program: each reads what the other wrote.
        logged.append(samples([tarballs["x86_64"] / "bin/khz"], f"{machine}.tlog", tmp_path))
    assert summaries[0] == summaries[1]
    assert len(logged[0]) > 500 and logged[0] == logged[1]


def test_a_policy_decides_the_same_on_both_machines_to_the_last_bit(
    qemu: str, tarballs: "dict[str, pathlib.Path]", tmp_path: pathlib.Path
) -> None:
    files = {machine: tarball / "share/doc/khz/robots/arm_policy.toml" for machine, tarball in tarballs.items()}
    khz: "dict[str, list[str | pathlib.Path]]" = {
        "x86_64": [tarballs["x86_64"] / "bin/khz"],
        "aarch64": [qemu, tarballs["aarch64"] / "bin/khz"],
    }
    for machine, other in (("x86_64", "aarch64"), ("aarch64", "x86_64")):
        log = f"{machine}.tlog"
        run(*khz[machine], "run", "--virtual", "--duration", "2s", "--no-report", "--log", log, files[machine], cwd=tmp_path)
        output = run(*khz[other], "replay", log, "--robot", files[other], cwd=tmp_path)
        assert "decisions made again, equal to the last bit" in output, output


def test_packages_name_their_machine(qemu: str, made: Find) -> None:
    assert run("dpkg-deb", "--field", made("khz_*_arm64.deb"), "Architecture").strip() == "arm64"
    assert made("kilohertz-*manylinux_2_28_aarch64.whl").is_file()
