"""Robot files that come with the package: those of `khz new --template`, under the same names."""

from __future__ import annotations

import pathlib

_FOLDER = pathlib.Path(__file__).parent / "robots"


def templates() -> list[str]:
    """Names of the robots that come with the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.toml"))


def template(name: str) -> pathlib.Path:
    """The robot file of this name, with the MuJoCo model that it needs in its folder. Copy it to change it. Raises ValueError
    that lists the names if there is none."""
    if name not in templates():
        raise ValueError(f"there is no template {name!r}; the templates are {', '.join(templates())}")
    return _FOLDER / f"{name}.toml"
