"""The wheel in fresh environments of every Python that is here."""

import email.message
import email.parser
import html
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from release import ROOT, Find, run

WHEEL = "kilohertz-*manylinux_2_17_x86_64*.whl"
SDIST = "kilohertz-*.tar.gz"


def interpreter(version: str) -> str:
    """A Python of this version: of the PATH, or of pyenv."""
    pyenv = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")
    if not found:
        pytest.skip(f"there is no Python {version}")
    return found


def environment(version: str, folder: pathlib.Path) -> pathlib.Path:
    run(interpreter(version), "-m", "venv", folder)
    return folder / "bin"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_two_commands_to_a_robot(made: Find, tmp_path: pathlib.Path, version: str) -> None:
    programs = environment(version, tmp_path / "env")
    run(programs / "pip", "install", "--quiet", "--retries", "10", made(WHEEL), timeout=400)
    # Nothing but the command's folder: neither this project nor its Python.
    run(programs / "khz", "run", "--virtual", "--duration", "1s", cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert "<html" in (tmp_path / "run.html").read_text()
    program = "import kilohertz; print(kilohertz.Robot.quadruped().run(duration=0.2, virtual_time=True))"
    assert "; finished;" in run(programs / "python", "-c", program, cwd=tmp_path)


def test_an_old_python_is_refused_with_the_reason(made: Find, tmp_path: pathlib.Path) -> None:
    pip = environment("3.8", tmp_path / "env") / "pip"

    def refusal(*words: "str | pathlib.Path") -> str:
        done = subprocess.run([pip, "install", "--no-index", *words], capture_output=True, text=True, timeout=110)
        assert done.returncode == 1
        return done.stderr

    # As a package index lists them.
    requires = html.escape(metadata(made(WHEEL))["Requires-Python"])
    links = [f'<a href="{file.as_uri()}" data-requires-python="{requires}">{file.name}</a>' for file in (made(WHEEL), made(SDIST))]
    (tmp_path / "index.html").write_text("<html><body>" + "\n".join(links))
    refused = refusal("--find-links", tmp_path / "index.html", "kilohertz")
    assert "require a different python version" in refused and "0.1.0 Requires-Python >=3.11" in refused
    # As files.
    assert "not a supported wheel on this platform" in refusal(made(WHEEL))
    assert "kilohertz requires Python 3.11 or newer; this is 3.8" in refusal("--no-build-isolation", made(SDIST))


def metadata(file: pathlib.Path) -> "email.message.Message":
    with zipfile.ZipFile(file) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return email.parser.BytesParser().parsebytes(wheel.read(name))


def test_auditwheel_finds_the_promised_c_library(made: Find) -> None:
    shown = run(pathlib.Path(sys.executable).parent / "auditwheel", "show", made(WHEEL))
    assert '"manylinux_2_17_x86_64"' in " ".join(shown.split()), shown


def test_what_is_in_it(made: Find) -> None:
    with zipfile.ZipFile(made(WHEEL)) as wheel:
        names = wheel.namelist()
        # pip makes executable what is executable here.
        (script,) = [each for each in wheel.infolist() if each.filename.endswith(".data/scripts/khz")]
        assert script.external_attr >> 16 & 0o111 == 0o111
        fields = metadata(made(WHEEL))
        assert fields["Requires-Python"] == ">=3.11" and fields["License-Expression"] == "MIT OR Apache-2.0"
        licences = {"LICENSE-MIT", "LICENSE-APACHE", "LICENSE-THIRD-PARTY.txt", "LICENSE-RUST-LIBRARY.html"}
        assert licences <= set(fields.get_all("License-File", []))
        terms = wheel.read(next(name for name in names if name.endswith("LICENSE-THIRD-PARTY.txt"))).decode()
        # One is in the module, one only in the command.
        assert "\npyo3 v" in terms and "\nclap v" in terms
        # Neither home nor workspace of the person who built it.
        ours = [str(ROOT).encode() + b"/", str(pathlib.Path.home()).encode() + b"/.cargo"]
        assert not [name for name in names if any(path in wheel.read(name) for path in ours)]


def test_the_sources_are_whole(made: Find, tmp_path: pathlib.Path) -> None:
    """Cargo resolves them without the repository; whether they build is tried below."""
    with tarfile.open(made(SDIST)) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    tree = run("cargo", "tree", "--offline", "--package", "kilohertz-cli", "--prefix", "none", cwd=folder, timeout=110)
    assert "kilohertz-cli v" in tree and "khz-emu v" in tree
    # What crates take from other folders.
    for file in folder.glob("crates/*/src/**/*.rs"):
        for path in [] if file.stem == "tests" else included(file.read_text().split("#[cfg(test)]")[0]):
            assert (file.parent / path).is_file(), f"{file.relative_to(folder)} includes {path}"


def included(text: str) -> "list[str]":
    parts = text.split('include_str!("')[1:]
    return [part.split('"', 1)[0] for part in parts]


@pytest.mark.skipif("KHZ_SLOW" not in os.environ, reason="compiles everything once more: set KHZ_SLOW=1")
@pytest.mark.timeout(3600)
def test_the_sources_build(made: Find, tmp_path: pathlib.Path) -> None:
    programs = environment("3.11", tmp_path / "env")
    run(programs / "pip", "install", "--quiet", made(SDIST))
    run(programs / "khz", "run", "--virtual", "--duration", "1s", cwd=tmp_path)
    assert (tmp_path / "run.html").is_file()
    assert "3" in run(programs / "python", "-c", "import kilohertz; print(kilohertz.Robot.emulated(servos=3))")


def test_lerobot_finds_the_plug_in_by_its_name(made: Find, tmp_path: pathlib.Path) -> None:
    """As it is written in the metadata: with hyphens LeRobot overlooks it silently."""
    plugin = made("lerobot_robot_kilohertz-*.whl")
    assert metadata(plugin)["Name"] == "lerobot_robot_kilohertz"
    assert metadata(plugin)["Version"] == metadata(made(WHEEL))["Version"]
    with zipfile.ZipFile(plugin) as wheel:
        names = wheel.namelist()
    packages = {"lerobot_robot_kilohertz", "lerobot_teleoperator_kilohertz"}
    assert packages < {name.split("/")[0] for name in names}
    assert {name.rsplit("/")[-1] for name in names if "/licenses/" in name} == {"LICENSE-APACHE", "LICENSE-MIT"}
