"""The documentation as a site: `cargo xtask site`. A link to a page, a file or a heading that is not there fails the build."""

import csv
import itertools
import os
import pathlib
import re
import subprocess

from docutils import nodes
from sphinx.application import Sphinx

DOCS = pathlib.Path(__file__).parent

project = "Kilohertz"
author = "The Kilohertz authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["examples"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
# The changelog names everything, and explains nothing: it comes last.
html_search_scorer = str(DOCS / "static/search.js")
html_title = "Kilohertz"
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
# Text that the highlighter cannot read is shown plainly: JSON with an ellipsis, for example.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}


def commands() -> str:
    """Every command with its help, as a page."""
    text = ["# Commands", "Made from `khz --help`."]
    for words in tree([]):
        title = " ".join(["khz", *words])
        text += [f"{'#' * min(len(words) + 2, 4)} {title}", f"```text\n{help_of(words)}\n```"]
    return "\n\n".join(text) + "\n"


def tree(words: list[str]) -> list[list[str]]:
    """The command `words` and all below it, in the order of their help."""
    # The first help has them in groups.
    below = re.search(r"^Commands:\n(.*?)(?:\n\n|\Z)" if words else r"\n\n(.*?)\n\n", help_of(words), re.S | re.M)
    names = re.findall(r"^  (\S+)", below.group(1), re.M) if below else []
    if not words:
        # The help leaves out what packagers need alone.
        names += ["completions", "man"]
    return [words] + [path for name in names if name != "help" for path in tree([*words, name])]


def help_of(words: list[str]) -> str:
    khz = os.environ.get("KHZ", str(DOCS.parent / "target/release/khz"))
    return subprocess.run([khz, *words, "--help"], capture_output=True, text=True, check=True).stdout.rstrip()


def only_named(_app: Sphinx, name: str, text: list[str]) -> None:
    """Without the command and the package, the two pages that are made of them."""
    if name in {"commands", "python-api"}:
        title = text[0].splitlines()[0]
        text[0] = f"{title}\n\nThis page is in the site that `cargo xtask site --all` builds.\n"


def with_tests(_app: Sphinx, name: str, text: list[str]) -> None:
    """The page of hazards ends with the tests of each, from the file that the lints check."""
    if name != "hazards":
        return
    lines = ["\n## Tests\n"]
    with open(DOCS / "hazards.tsv") as file:
        for hazard, tests in itertools.groupby(csv.DictReader(file, delimiter="\t"), lambda row: row["hazard"]):
            lines.append(f"**{hazard}**\n")
            for path, group in itertools.groupby(tests, lambda row: row["file"]):
                names = ", ".join(f"`{row['test']}`" for row in group if row["test"])
                lines.append(f"- `{path}`" + (f": {names}" if names else ""))
            lines.append("")
    text[0] += "\n".join(lines)


#: Words that a cell of a table may have in the source; what a longer one says after its first sentences is below the table.
LONGEST = 55


def shorten(app: Sphinx, doctree: nodes.document) -> None:
    """Cells of tables that are too long to be read there end early, with the rest as a note."""
    for table in doctree.findall(nodes.table):
        notes = nodes.bullet_list()
        for row in table.findall(nodes.row):
            for cell in list(row.children)[1:]:
                paragraph = cell.next_node(nodes.paragraph)
                if paragraph is not None and len(paragraph.astext().split()) > LONGEST and (rest := cut(paragraph)):
                    name = nodes.strong("", "", *(child.deepcopy() for child in row.children[0].next_node(nodes.paragraph).children))
                    notes += nodes.list_item("", nodes.paragraph("", "", name, nodes.Text(": … "), *rest))
        if notes.children:
            table.parent.insert(table.parent.index(table) + 1, notes)


def cut(paragraph: nodes.paragraph) -> list[nodes.Node]:
    """Ends a paragraph at its last sentence, or part of one, that still fits; what came after it."""
    words, ends = 0, []
    for index, child in enumerate(paragraph.children):
        for end in re.finditer(r"[.;:,] ", child.astext()) if isinstance(child, nodes.Text) else ():
            if words + len(child.astext()[: end.start()].split()) <= LONGEST - 10:
                ends.append((end.group() != ", ", index, end.end()))
        words += len(child.astext().split())
    if not ends:
        return []
    # At a comma only if there is nothing better.
    _, index, end = max(ends)
    text, rest = paragraph.children[index].astext(), paragraph.children[index + 1 :]
    del paragraph.children[index:]
    paragraph += nodes.Text(text[:end] + "…")
    return [nodes.Text(text[end:]), *rest]


def setup(app: Sphinx) -> None:
    pages_alone = app.tags.has("pages")
    (DOCS / "commands.md").write_text("# Commands\n" if pages_alone else commands())
    app.connect("doctree-read", shorten)
    app.connect("source-read", with_tests)
    if pages_alone:
        app.connect("source-read", only_named)
