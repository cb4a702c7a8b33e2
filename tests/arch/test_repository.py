"""The shape of the tree: what every distribution has, and what none of them may say."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from members import ROOT, Member, find_members

MEMBERS = find_members()
META: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home/[a-z]\w*|root|Users/\w+|opt/(?:wheels|pypi))(?:/|\b)")
"""Folders of somebody's machine; nothing in the repository may depend on or mention one."""

VAGUE_FILES = {"utils.py", "helpers.py", "common.py", "misc.py", "util.py"}


def id_of(member: Member) -> str:
    return member.name


def repository_files(root: Path) -> list[Path]:
    """Text files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def machine_paths(root: Path, files: Iterable[Path]) -> list[str]:
    found = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line):
                found.append(f"{path.relative_to(root).as_posix()}:{number}")
    return found


def test_nothing_mentions_a_path_of_some_machine() -> None:
    mine = Path(__file__).resolve()
    assert machine_paths(ROOT, (path for path in repository_files(ROOT) if path != mine)) == []


def test_a_machine_path_is_found(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("see docs/work/a\n/work/models/x.gguf\n`/home/ann/x`\n/homework\nhttp://h/root/x\n/root/.cache\n")
    assert machine_paths(tmp_path, [file]) == ["a.md:2", "a.md:3", "a.md:6"]


@pytest.mark.parametrize("member", MEMBERS, ids=id_of)
def test_a_member_has_its_files(member: Member) -> None:
    assert (member.path / "README.md").is_file()
    assert list((member.path / "tests").rglob("test_*.py")), "no tests"
    assert (member.source / "py.typed").is_file()
    assert not list((member.path / "tests").rglob("__init__.py")), "tests are not packages"


@pytest.mark.parametrize("member", MEMBERS, ids=id_of)
def test_a_member_says_licence_python_and_version(member: Member) -> None:
    assert member.name == member.path.name
    assert member.project["license"] == "Apache-2.0"
    assert member.project["requires-python"] == ">=3.11"
    assert re.fullmatch(r"\d+\.\d+\.\d+", member.project["version"])
    assert member.project["description"]


@pytest.mark.parametrize("member", [member for member in MEMBERS if member.is_plugin], ids=id_of)
def test_a_plugin_depends_on_the_contracts_and_on_no_other_part(member: Member) -> None:
    ours = {name: bounds for name, bounds in map(split_requirement, member.project["dependencies"]) if is_ours(name)}
    assert set(ours) == {"infer-api"}
    assert re.fullmatch(r">=\d+\.\d+,<\d+", ours["infer-api"]), ours


@pytest.mark.parametrize("member", MEMBERS, ids=id_of)
def test_no_member_pins_a_third_party(member: Member) -> None:
    extras = [item for group in member.project.get("optional-dependencies", {}).values() for item in group]
    pinned = [item for item in [*member.project.get("dependencies", []), *extras] if re.search(r"[^!~<>]==|~=", item)]
    assert pinned == [], "versions are pinned in requirements/constraints.txt only"


@pytest.mark.parametrize("member", MEMBERS, ids=id_of)
def test_no_file_is_named_after_nothing(member: Member) -> None:
    assert [path.name for path in member.files() if path.name in VAGUE_FILES] == []


def split_requirement(text: str) -> tuple[str, str]:
    match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(.*)", text)
    assert match is not None, text
    return match[1].lower(), match[2].replace(" ", "")


def is_ours(name: str) -> bool:
    return name == "infer" or name.startswith("infer-")


def test_the_extras_name_exactly_the_plugins_that_exist() -> None:
    extras = META["project"]["optional-dependencies"]
    named = {split_requirement(item)[0] for group in extras.values() for item in group} - {"infer"}
    assert named == {member.name for member in MEMBERS if member.is_plugin}


def test_the_workspace_knows_every_member() -> None:
    globs = META["tool"]["uv"]["workspace"]["members"]
    found = {folder.parent for glob in globs for folder in ROOT.glob(f"{glob}/pyproject.toml")}
    assert found == {member.path for member in MEMBERS}
    assert set(META["tool"]["uv"]["sources"]) == {member.name for member in MEMBERS}


def test_every_requirement_by_name_is_pinned_in_the_constraints() -> None:
    lines = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==")[0] for line in lines if line and not line.startswith("#")]
    wanted = {item for member in MEMBERS for item in member.project.get("dependencies", [])}
    for name in ("dev.txt", "docs.txt"):
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        wanted |= {line for line in text.splitlines() if line and not line.startswith("#")}
    names = {split_requirement(item)[0].replace("_", "-") for item in wanted}
    assert sorted(name for name in names if not is_ours(name) and name not in pins) == []
    assert pins == sorted(set(pins)), "sorted, and each once"
