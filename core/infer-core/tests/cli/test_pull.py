from __future__ import annotations

from pathlib import Path

import pytest

from infer.model.source import Local


def test_the_path_and_the_size_are_printed(infer, tmp_path: Path) -> None:
    (tmp_path / "x.tiny").write_bytes(b"12345")
    shown = infer("pull", str(tmp_path / "x.tiny"))
    assert shown.out == f"x: {tmp_path / 'x.tiny'} (5 B)\n"
    assert infer("pull", str(tmp_path)).out.endswith("(5 B)\n")


def test_without_a_name_the_configured_model_is_fetched(infer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        "infer.cli.pull.ensure_model",
        lambda name, load, index: asked.append((name, load.home)) or Local(name, tmp_path),
    )
    infer("pull", "--download-dir", "/there")
    infer("pull", "--model", "org/x")
    assert asked == [("auto", "/there"), ("org/x", "~/.cache/infer")]


def test_no_such_model_ends_in_one_line_and_status_1(infer) -> None:
    shown = infer("pull", "smolm2")
    assert shown.status == 1
    assert "no such model 'smolm2'" in shown.err
    assert "Did you mean 'smollm2'?" in shown.err
    assert shown.err.count("\n") == 1
