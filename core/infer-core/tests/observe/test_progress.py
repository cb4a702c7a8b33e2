from __future__ import annotations

import io
import subprocess
import sys

from infer.observe.progress import byte_progress


def test_a_bar_shows_the_title_and_the_size() -> None:
    out = io.StringIO()
    with byte_progress("loading x", stream=out, shown=True) as report:
        report(2**20, 2**22)
        report(2**22, 2**22)
    assert "loading x" in out.getvalue()
    assert "4.2/4.2 MB" in out.getvalue() or "4.0/4.0 MiB" in out.getvalue()


def test_an_unknown_total_is_no_error() -> None:
    out = io.StringIO()
    with byte_progress("fetching x", stream=out, shown=True) as report:
        report(2**20, None)
    assert "fetching x" in out.getvalue()


def test_no_size_is_shown_before_anything_was_loaded() -> None:
    out = io.StringIO()
    with byte_progress("loading x", stream=out, shown=True) as report:
        report(0, None)
    assert "loading x" in out.getvalue()
    assert "/?" not in out.getvalue()
    assert "byte" not in out.getvalue()


def test_nothing_is_printed_where_no_terminal_is() -> None:
    out = io.StringIO()
    with byte_progress("loading x", stream=out) as report:
        report(1, 2)
    assert out.getvalue() == ""


def test_a_hidden_bar_imports_no_rich() -> None:
    code = (
        "import io, sys; from infer.observe.progress import byte_progress\n"
        "with byte_progress('x', stream=io.StringIO()) as report: report(1, 2)\n"
        "sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
