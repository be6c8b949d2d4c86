"""What docs/lerobot.md prints, as it prints it, with LeRobot itself: `cargo xtask nightly lerobot`."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from robots import lenient

pytestmark = [
    pytest.mark.skipif("KHZ_SLOW" not in os.environ, reason="LeRobot takes minutes: `cargo xtask nightly lerobot`"),
    pytest.mark.timeout(900),
]

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/lerobot.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


def test_every_command_of_the_page(khz: str, tmp_path: pathlib.Path) -> None:
    commands = []
    for language, title, text in BLOCK.findall(PAGE.read_text()):
        if title:
            # On a busy computer only the limits of this page's robot are not those it has there.
            (tmp_path / title).write_text(lenient(text) if language == "toml" else text)
        elif language == "sh" and "pip install" not in text:
            commands.append(text)
    assert len(commands) == 2
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/khz").symlink_to(khz)
    path = f"{tmp_path / 'bin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HF_LEROBOT_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    script = "\n".join(["set -e", *commands])
    with (tmp_path / "said.txt").open("w") as output:
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, stdout=output, stderr=output, timeout=800)
    assert done.returncode == 0, (tmp_path / "said.txt").read_text()[-5000:]
    for folder, episodes in (("nod", 2), ("squat", 2)):
        info = json.loads((tmp_path / folder / "meta/info.json").read_text())
        assert info["total_episodes"] == episodes and info["total_frames"] > 100
    assert (tmp_path / "nod.html").is_file()
