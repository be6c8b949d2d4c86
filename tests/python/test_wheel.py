"""What a wheel must carry to be passed on: our licences, and those of all that is linked into it."""

import os
import email
import pathlib
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


@pytest.fixture(scope="module")
def wheel() -> zipfile.ZipFile:
    wheels = list((TARGET / "wheels").glob("kilohertz-*.whl"))
    if len(wheels) != 1:
        pytest.fail("build the wheel first: cargo xtask test tests/python")
    return zipfile.ZipFile(wheels[0])


def read(wheel: zipfile.ZipFile, ending: str) -> str:
    [name] = [name for name in wheel.namelist() if name.endswith(ending)]
    return wheel.read(name).decode()


def test_a_wheel_has_our_licences(wheel: zipfile.ZipFile) -> None:
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert read(wheel, f".dist-info/licenses/{name}") == (ROOT / name).read_text()
    metadata = email.message_from_string(read(wheel, ".dist-info/METADATA"))
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert len(metadata.get_all("License-File", [])) == 4


def test_a_wheel_has_the_licences_of_all_that_is_linked_into_it(wheel: zipfile.ZipFile) -> None:
    text = read(wheel, ".dist-info/licenses/LICENSE-THIRD-PARTY.txt")
    # BSD asks for its notice in binaries: of the Rust crates, and of zstd's C sources.
    for crate in ("numpy v", "snap v", "zstd-sys v", "pyo3 v", "serde v", "winnow v"):
        assert f"\n{crate}" in text, crate
    assert "Copyright (c) Meta Platforms" in text
    assert "GNU GENERAL PUBLIC LICENSE" not in text
    assert "MPL-2.0" not in text


def test_a_wheel_has_the_licences_of_what_the_standard_library_brings_along(wheel: zipfile.ZipFile) -> None:
    text = read(wheel, ".dist-info/licenses/LICENSE-RUST-LIBRARY.html")
    for crate in ("gimli", "hashbrown", "miniz_oxide", "object", "rustc-demangle", "addr2line"):
        assert f"<h3>📦 {crate}-" in text, crate
    assert "LLVM Exceptions to the Apache 2.0 License" in text


def test_a_wheel_has_no_path_of_the_machine_that_built_it(wheel: zipfile.ZipFile) -> None:
    for name in wheel.namelist():
        for path in (ROOT, pathlib.Path.home()):
            assert bytes(path) + b"/" not in wheel.read(name), f"{path} in {name}"


def test_a_wheel_has_the_robots_and_their_models(wheel: zipfile.ZipFile) -> None:
    package = ROOT / "python"
    files = {str(file.relative_to(package)): file for file in (package / "kilohertz/robots").rglob("*") if file.is_file()}
    assert "kilohertz/robots/models/quadruped.xml" in files
    for name, file in files.items():
        assert wheel.read(name) == file.read_bytes(), name
