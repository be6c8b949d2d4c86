"""The documentation as a site: `cargo xtask site`. A link to a page, a file or a heading that is not there fails the build."""

import os
import pathlib
import re
import subprocess

project = "Kilohertz"
author = "The Kilohertz authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["examples"]
html_theme = "furo"
html_title = "Kilohertz"
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
# Text that the highlighter cannot read is shown plainly: JSON with an ellipsis, for example.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}

DOCS = pathlib.Path(__file__).parent


def commands() -> str:
    """Every command with its help, as a page."""
    text = ["# Commands", "Made from `khz --help`."]
    for words in tree([]):
        title = " ".join(["khz", *words])
        text += [f"{'#' * min(len(words) + 2, 4)} {title}", f"```text\n{help_of(words)}\n```"]
    return "\n\n".join(text) + "\n"


def tree(words: list[str]) -> list[list[str]]:
    """The command `words` and all below it, in the order of their help."""
    below = re.search(r"^Commands:\n(.*?)(?:\n\n|\Z)", help_of(words), re.S | re.M)
    names = re.findall(r"^  (\S+)", below.group(1), re.M) if below else []
    if not words:
        # The help leaves out what packagers need alone.
        names += ["completions", "man"]
    return [words] + [path for name in names if name != "help" for path in tree([*words, name])]


def help_of(words: list[str]) -> str:
    khz = os.environ.get("KHZ", str(DOCS.parent / "target/release/khz"))
    return subprocess.run([khz, *words, "--help"], capture_output=True, text=True, check=True).stdout.rstrip()


(DOCS / "commands.md").write_text(commands())
