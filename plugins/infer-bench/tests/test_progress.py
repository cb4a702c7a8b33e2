from __future__ import annotations

import io
import sys

import pytest

from infer_bench.progress import request_progress
from infer_bench.records import RequestRecord


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_there_is_no_bar_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with request_progress("round 1", 2) as tell:
        tell(RequestRecord(0, 0.0))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_what_is_done_and_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with request_progress("round 1", 2) as tell:
        tell(RequestRecord(0, 0.0))
        tell(RequestRecord(1, 0.0, error="cut short"))
    assert "round 1" in terminal.getvalue()
    assert "2/2" in terminal.getvalue()
    assert "1 failed" in terminal.getvalue()
