"""What the tests of the Python package share."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def vector(tmp_path: pathlib.Path):
    """Writes a log of vectors/tlog to a file and returns its path."""

    def write(name: str, cut: int | None = None) -> pathlib.Path:
        text = (ROOT / "vectors/tlog" / f"{name}.hex").read_text()
        data = bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))
        path = tmp_path / f"{name}.tlog"
        path.write_bytes(data[:cut])
        return path

    return write
