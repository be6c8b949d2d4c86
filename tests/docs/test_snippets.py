"""Every command and snippet of the documentation is run, page by page, in a folder of its own.

The opening of a code block determines what it is: `sh` is run, `python` is run, `toml`, `json` are read, and `title="FILE"` writes the
block to that file first. A block of `python`, and a program run from a block of `sh` that names no file in `robots/`, finds the
installed package alone. A `rust`, `c`, `cpp` or `cmake` block is part of the example that its title names, which other tests compile and run. A block
that cannot run has the reason in the line before, `<!-- not run: REASON -->`; its commands must still be ones that exist. So does one whose
commands may fail for what they find: `<!-- may fail: REASON -->`; wrong usage (exit code 2) is a failure all the same.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "python/README.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(
    r"(?:<!-- (?P<note>not run|may fail): [^\n]+ -->\n)?^```(?P<language>\w*)(?P<rest>[^\n`]*)\n(?P<text>.*?)^```$", re.M | re.S
)
TITLE = re.compile(r'title="([^"]+)"')
EMULATED = re.compile(r"<!-- emulated: (\S+) is a terminal with emulated servos 1, 2 and 3 -->")
SHOWN = {"", "text", "console", "ini", "cpp", "mermaid", "sql"}
"""What is read by people: output, files of other programs, and queries, which `tests/dataset` asks."""
COMPILED = {"rust", "c", "cpp", "cmake"}
"""What is part of an example, if it has a title."""

LEG = """
[bus.main]
link = "emulated"
[servo_defaults]
bus = "main"
""" + "".join(f'[[servo]]\nname = "joint_{number}"\nid = {number}\n' for number in (1, 2, 3))


@dataclass
class Block:
    language: str
    title: str | None
    note: str | None
    text: str


def blocks(page: pathlib.Path) -> Iterator[Block]:
    for found in FENCE.finditer(page.read_text()):
        title = TITLE.search(found["rest"])
        yield Block(found["language"], title and title[1], found["note"], found["text"])


@pytest.fixture
def shell(khz: str, tmp_path: pathlib.Path) -> dict[str, str]:
    """What a reader's shell has: the commands `khz` and `python`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "khz").symlink_to(khz)
    # Not a link: an environment's Python knows its packages by the path it is called by.
    (folder / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "python").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}


@contextlib.contextmanager
def served(page: pathlib.Path, khz: str, folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    """The port a page writes, and the terminal on which emulated servos answer for it."""
    port = EMULATED.search(page.read_text())
    if port is None:
        yield "", ""
        return
    (folder / "emulated.toml").write_text(LEG)
    words = [khz, "emulate", folder / "emulated.toml"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as machine:
        assert machine.stdout is not None
        try:
            yield port[1], machine.stdout.readline().split()[1]
        finally:
            machine.terminate()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_snippet_of_the_page_works(
    page: pathlib.Path, khz: str, shell: dict[str, str], tmp_path: pathlib.Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with served(page, khz, tmp_path) as (port, terminal):
        # Files first: a page may show a file after the first command that reads it.
        found = [Block(b.language, b.title, b.note, b.text.replace(port, terminal) if port else b.text) for b in blocks(page)]
        for block in found:
            if block.title and block.language not in COMPILED:
                (work / block.title).write_text(block.text)
        for block in found:
            try_block(block, page, work, shell)


def try_block(block: Block, page: pathlib.Path, work: pathlib.Path, shell: dict[str, str]) -> None:
    match block.language:
        case "sh":
            for command in commands(block.text):
                exists(command, shell)
            if block.note != "not run":
                with robots_of_the_repository(block.text, work):
                    run(["bash", "-uo", "pipefail", "-c", strict(block) + as_installed(block.text) + "\nexit 0"], work, shell)
        case "python":
            compile(block.text, str(page), "exec")
            if block.title is None and block.note != "not run":
                run([sys.executable, "-c", block.text], work, shell)
        case "toml":
            tomllib.loads(block.text)
        case "json":
            json.loads("{" + block.text + "}")
        case "rust":
            assert_compiled(block, page)
        case language if language in COMPILED and block.title:
            assert_compiled(block, page)
        case other:
            assert other in SHOWN, f"no rule says how a block of `{other}` is tried"


@contextlib.contextmanager
def robots_of_the_repository(text: str, work: pathlib.Path) -> Iterator[None]:
    """What a reader of a shell block has who cloned the repository. Python has the installed package alone."""
    folder = work / "robots"
    if "robots/" in text:
        folder.symlink_to(ROOT / "robots")
    yield
    folder.unlink(missing_ok=True)


def strict(block: Block) -> str:
    """What ends a script at its first command that fails."""
    accepted = "1|3" if block.note == "may fail" else "none"
    return f"trap 'case $? in {accepted}) ;; *) exit 3 ;; esac' ERR\n"


def assert_compiled(block: Block, page: pathlib.Path) -> None:
    """Such a block stands in the example its title names, or, of Rust, in a page that rustdoc compiles."""
    if block.title is None:
        included = f'include_str!("../../../{page.relative_to(ROOT)}")'
        sources = (ROOT / "crates").glob("*/src/lib.rs")
        assert any(included in source.read_text() for source in sources), f"no crate compiles the Rust of {page.name}"
        return
    lines = [line.strip() for line in (ROOT / block.title).read_text().splitlines()]
    for line in block.text.splitlines():
        assert not line.strip() or line.strip() in lines, f"`{line}` is not in {block.title}"


def as_installed(text: str) -> str:
    return re.sub(r"\bcargo run --release (?:--quiet )?--", "khz", text)


def commands(text: str) -> Iterator[list[str]]:
    """The commands `khz …` of a block, without redirections and what follows them."""
    joined = as_installed(text).replace("\\\n", " ")
    for line in joined.splitlines():
        words = shlex.split(line, comments=True)
        if "khz" in words[:2]:
            words = words[words.index("khz") + 1 :]
            end = next((at for at, word in enumerate(words) if word in {"|", "||", "&&", ">", "&", ";"}), len(words))
            yield words[:end]


def exists(words: list[str], shell: dict[str, str]) -> None:
    """The subcommand is there, and so is each option of it."""
    path = []
    for word in words:
        if word.startswith("-") or run(["khz", *path, word, "--help"], None, shell, check=False) is None:
            break
        text = run(["khz", *path, "--help"], None, shell)
        if not re.search(rf"^  {re.escape(word)}\s", text or "", re.M):
            break
        path.append(word)
    assert path or not words or words[0].startswith("-"), f"there is no `khz {words[0]}`"
    text = run(["khz", *path, "--help"], None, shell) or ""
    for word in words[len(path) :]:
        if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word):
            option = word.partition("=")[0]
            assert re.search(rf"(^|[ ,]){re.escape(option)}\b", text, re.M), f"`khz {' '.join(path)}` has no option {option}"


def run(words: list[str], work: pathlib.Path | None, shell: dict[str, str], check: bool = True) -> str | None:
    done = subprocess.run(words, cwd=work, env=shell, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if check:
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout if done.returncode == 0 else None
