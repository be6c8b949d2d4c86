"""What notebooks show: tables, and the progress of a run."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterable
from typing import Any


def table(caption: str, rows: Iterable[Iterable[object]], head: Iterable[str] = (), note: str = "") -> str:
    """A table of HTML. The first cell of each row is its heading; whatever a cell contains is shown as text."""
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = [f"<thead><tr>{names}</tr></thead>"] if names else []
    for first, *others in rows:
        cells = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in others)
        lines.append(f"<tr><th>{html.escape(str(first))}</th>{cells}</tr>")
    text = f"<table><caption>{html.escape(caption)}</caption>{''.join(lines)}</table>"
    return text + (f"<p>{html.escape(note)}</p>" if note else "")


def progress() -> Callable[[str], None] | None:
    """What shows a line below a notebook's cell, in place of the line before. None outside of notebooks."""
    module: Any = sys.modules.get("IPython")
    shell = module and module.get_ipython()
    if not hasattr(shell, "kernel"):
        return None
    shown: list[Any] = []

    def show(line: str) -> None:
        bundle = {"text/plain": line}
        if shown:
            shown[0].update(bundle, raw=True)
        else:
            shown.append(module.display.display(bundle, raw=True, display_id=True))

    return show
