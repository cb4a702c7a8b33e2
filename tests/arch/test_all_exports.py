"""Every public module says what is public, and means it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from members import Member, find_members
from sample_tree import write_member

READ_EXPORTS = """
import importlib, json, sys
missing = []
for name in json.loads(sys.argv[1]):
    module = importlib.import_module(name)
    missing += [f"{name}.{item}" for item in module.__all__ if not hasattr(module, item)]
    if len(set(module.__all__)) != len(module.__all__):
        missing.append(f"{name}.__all__ repeats a name")
print(json.dumps(missing))
"""


def is_public(module: str) -> bool:
    return not any(part.startswith("_") for part in module.split("."))


def says_all(path: Path) -> bool:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return True
    return False


def without_all(member: Member) -> list[str]:
    """Public modules without `__all__`; a package whose `__init__.py` holds nothing but words needs none."""
    found = []
    for path in member.files():
        relative = path.relative_to(member.source.parent)
        body = ast.parse(path.read_text(encoding="utf-8")).body
        if all(isinstance(node, ast.Expr) for node in body) or not is_public(
            ".".join(relative.with_suffix("").parts[:-1])
        ):
            continue
        if path.stem == "__init__" or not path.stem.startswith("_"):
            found += [] if says_all(path) else [relative.as_posix()]
    return found


@pytest.mark.parametrize("member", find_members(), ids=lambda member: member.name)
def test_every_public_module_has_all(member: Member) -> None:
    assert without_all(member) == []


@pytest.mark.parametrize("member", find_members(), ids=lambda member: member.name)
def test_every_exported_name_exists(member: Member) -> None:
    with_all = {path for path in member.files() if says_all(path)}
    names = [
        name
        for name in member.modules()
        if member.source.parent.joinpath(*name.split(".")).with_suffix(".py") in with_all
        or member.source.parent.joinpath(*name.split("."), "__init__.py") in with_all
    ]
    command = [sys.executable, "-c", READ_EXPORTS, json.dumps(names)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[-1]) == []


def test_a_module_without_all_is_found(tmp_path: Path) -> None:
    files = {
        "good.py": "__all__ = ['f']\ndef f(): ...\n",
        "typed.py": "__all__: list[str] = []\n",
        "bad.py": "def f(): ...\n",
        "_private.py": "def f(): ...\n",
        "words/__init__.py": '"""Only words."""\n',
        "code/__init__.py": "x = 1\n",
    }
    write_member(tmp_path, "plugins/infer-x", "infer_x", files)
    (member,) = find_members(tmp_path)
    assert without_all(member) == ["infer_x/bad.py", "infer_x/code/__init__.py"]
