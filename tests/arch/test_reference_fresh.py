"""The reference pages say what the installed parts say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import write_reference
from members import ROOT


@pytest.mark.parametrize("name", write_reference.PAGES)
def test_a_reference_page_is_fresh(name: str) -> None:
    text = (ROOT / write_reference.FOLDER / name).read_text(encoding="utf-8")
    assert text.rstrip("\n") == write_reference.PAGES[name]().rstrip("\n"), "run: make docs"


def test_a_stale_page_is_detected(tmp_path: Path) -> None:
    assert write_reference.main(["--check"], tmp_path) == 1, "missing pages are stale"
    assert write_reference.main([], tmp_path) == 0
    assert write_reference.main(["--check"], tmp_path) == 0
    page = tmp_path / write_reference.FOLDER / "config.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nA word by hand.\n", encoding="utf-8")
    assert write_reference.main(["--check"], tmp_path) == 1
