"""Every file states its owner and its licences: https://reuse.software."""

import subprocess
import sys

from release import ROOT


def test_every_file_has_a_licence() -> None:
    done = subprocess.run([sys.executable, "-m", "reuse", "--root", ROOT, "lint"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
