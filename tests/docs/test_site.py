"""The documentation builds as a site; a link to a page, a file or a heading that is not there is a failure."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_site_builds_without_a_warning(tmp_path: pathlib.Path) -> None:
    words = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", ROOT / "docs", tmp_path]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").is_file()
