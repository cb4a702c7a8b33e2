"""The pages name files, functions and links; every one of them must exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from members import ROOT, find_members

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
READMES = [member.path / "README.md" for member in find_members()] + sorted(
    (ROOT / "tests/plugins").glob("*/README.md")
)
NAMED_ROW = re.compile(r"^\| `(?P<name>[A-Za-z_][\w.]*)` \| `(?P<file>[\w/.-]+\.py)` \|", re.MULTILINE)
REPOSITORY_PATH = re.compile(r"`((?:core|plugins|plugins-\w+|tests|docs|src|requirements)/[\w./-]+)`")
KIT_CLASS = re.compile(r"`(infer_testkit\.\w+)\.(\w+)`")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def defined_names(text: str) -> Iterator[str]:
    """Functions and classes of a module, and the methods of its classes as Class.method."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            methods = (item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
            yield from (f"{node.name}.{method.name}" for method in methods)


def wrong_rows(text: str, root: Path) -> list[str]:
    """Table rows that name a function and a file, where the file lacks the function."""
    wrong = []
    for match in NAMED_ROW.finditer(text):
        file = root / match["file"]
        if not file.is_file() or match["name"] not in defined_names(file.read_text(encoding="utf-8")):
            wrong.append(f"{match['name']} in {match['file']}")
    return wrong


def broken_links(page: Path) -> list[str]:
    text = CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [target for target in LINK.findall(text) if not (page.parent / target).exists()]


def test_the_walk_names_functions_that_exist() -> None:
    text = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")
    assert len(NAMED_ROW.findall(text)) > 30
    assert wrong_rows(text, ROOT) == []


def test_a_function_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Engine:\n    def step(self): ...\n")
    rows = "| `Engine.step` | `a.py` | x |\n| `Engine.run` | `a.py` | x |\n| `go` | `b.py` | x |\n"
    assert wrong_rows(rows, tmp_path) == ["Engine.run in a.py", "go in b.py"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_paths_that_exist(page: Path) -> None:
    named = REPOSITORY_PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md) [b](gone.md#x) [c](https://example.org) [d](#here)\n```text\n[e](code.md)\n```\n")
    assert broken_links(page) == ["gone.md"]


def test_conformance_classes_that_pages_name_exist() -> None:
    kit = next(member for member in find_members() if member.name == "infer-testkit")
    named = {found for page in [*PAGES, *READMES] for found in KIT_CLASS.findall(page.read_text(encoding="utf-8"))}
    assert named
    missing = []
    for module, name in sorted(named):
        file = kit.source / f"{module.removeprefix('infer_testkit.')}.py"
        if not file.is_file() or name not in defined_names(file.read_text(encoding="utf-8")):
            missing.append(f"{module}.{name}")
    assert missing == []
