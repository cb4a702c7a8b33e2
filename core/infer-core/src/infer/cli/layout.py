"""Plain text for terminals: widths, wrapped paragraphs, columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from textwrap import wrap

__all__ = ["columns", "facts", "paragraph", "terminal_width"]

NARROWEST, WIDEST, NO_TERMINAL = 40, 120, 100


def terminal_width() -> int:
    """Columns of the terminal on standard output, within readable bounds; 100 when it is a file or a pipe.

    The terminal itself is asked: the variable COLUMNS is often stale, or 0.
    """
    try:
        width = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return NO_TERMINAL
    return min(max(width, NARROWEST), WIDEST) if width > 0 else NO_TERMINAL


def paragraph(text: str, indent: int, width: int) -> list[str]:
    """`text` wrapped to lines of at most `width`, each indented by `indent` spaces."""
    return wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent, break_on_hyphens=False)


def columns(rows: Sequence[tuple[str, str]], width: int, indent: int = 2) -> list[str]:
    """Two columns: a word, and text that wraps beside it (below it where the words leave no room)."""
    left = max((len(word) for word, _ in rows), default=0) + indent + 2
    lines: list[str] = []
    for word, text in rows:
        head = " " * indent + word
        if width - left < 24:
            lines += [head, *paragraph(text, indent + 4, width)]
            continue
        body = wrap(text, width - left, break_on_hyphens=False) or [""]
        lines.append(f"{head:<{left}}{body[0]}".rstrip())
        lines += [" " * left + more for more in body[1:]]
    return lines


def facts(data: object) -> str:
    """Manifest data in words: {"devices": ["*"], "sizes": {"maximum": 256}} → "devices any; sizes maximum 256".

    Empty values, and numbers that are 0 (no bound), are left out.
    """
    if isinstance(data, dict):
        said = ((key.replace("_", " "), facts(value)) for key, value in data.items())
        return "; ".join(f"{key} {text}" for key, text in said if text)
    if isinstance(data, list | tuple):
        return ", ".join(filter(None, (facts(value) for value in data)))
    if data is None or (data == 0 and not isinstance(data, bool)):
        return ""
    return "any" if data == "*" else str(data)
