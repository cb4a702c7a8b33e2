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
        lambda config, index: asked.append((config.model.name, config.load.home)) or Local("x", tmp_path),
    )
    infer("pull", "--download-dir", "/there")
    infer("pull", "--model", "shop:x")
    infer("pull", "shop:y")
    assert asked == [("auto", "/there"), ("shop:x", "~/.cache/infer"), ("shop:y", "~/.cache/infer")]


def test_no_such_model_ends_in_one_line_and_status_1(infer) -> None:
    shown = infer("pull", "nonsense")
    assert shown.status == 1
    assert "no such model 'nonsense'" in shown.err
    assert "shop: shop:NAME" in shown.err
    assert shown.err.count("\n") == 1
