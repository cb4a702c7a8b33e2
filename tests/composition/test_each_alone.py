"""Every distribution by itself: what its wheel asks for exists, and beside infer-api alone it says what it offers."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fresh_venv import clean_environment
from members import Member, find_members

MEMBERS = find_members()
PLUGINS = [member for member in MEMBERS if (member.source / "manifest.py").is_file() and member.name != "infer-api"]

SHOW_MANIFEST = """
import importlib, json, sys
folders, package = sys.argv[1].split(":"), sys.argv[2]
sys.path[:0] = folders
module = importlib.import_module(package + ".manifest")
from infer_api.manifest import Plugin, package_manifest
path, text = package_manifest(package)
ours = sorted(name for name in sys.modules if name.partition(".")[0].startswith("infer"))
print(json.dumps([str(path), text == path.read_text(encoding="utf-8"), ours, "torch" in sys.modules]))
"""


def name_of(member: Member) -> str:
    return member.name


def metadata_of(wheel: Path) -> tuple[str, list[Requirement]]:
    """Version of a wheel, and what it needs without any extra."""
    with zipfile.ZipFile(wheel) as archive:
        (file,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(file).decode("utf-8"))
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    return metadata["Version"], [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]


def unmet(requirements: Iterable[Requirement], ours: dict[str, Path]) -> list[str]:
    """Requirements that neither our wheels nor the running environment satisfy."""
    missing = []
    for requirement in requirements:
        try:
            wheel = ours.get(requirement.name)
            found = metadata_of(wheel)[0] if wheel else version(requirement.name)
        except PackageNotFoundError:
            found = "0"
        if not requirement.specifier.contains(found, prereleases=True):
            missing.append(f"{requirement} (found {found})")
    return missing


@pytest.mark.parametrize("member", MEMBERS, ids=name_of)
def test_what_a_wheel_requires_exists(member: Member, wheels: dict[str, Path]) -> None:
    _, requirements = metadata_of(wheels[member.name])
    assert unmet(requirements, wheels) == []


def test_a_requirement_that_nobody_meets_is_detected(wheels: dict[str, Path]) -> None:
    asked = [
        Requirement("infer-api>=2,<3"),
        Requirement("no-such-distribution-of-anybody>=1"),
        Requirement("pytest>=8"),
    ]
    assert [line.partition(" (")[0] for line in unmet(asked, wheels)] == [str(one) for one in asked[:2]]


@pytest.mark.parametrize("member", PLUGINS, ids=name_of)
def test_a_manifest_needs_nothing_of_ours_but_the_contracts(
    member: Member, wheels: dict[str, Path], third_parties: Path, tmp_path: Path
) -> None:
    for name in ("infer-api", member.name):
        with zipfile.ZipFile(wheels[name]) as archive:
            archive.extractall(tmp_path)
    # -S: without the site-packages of the running environment, where all members are installed.
    command = [sys.executable, "-S", "-c", SHOW_MANIFEST, f"{tmp_path}:{third_parties}", member.package]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path, is_fresh, loaded, has_torch = json.loads(done.stdout)
    assert Path(path).is_relative_to(tmp_path)
    assert is_fresh, "the wheel holds a stale infer-plugin.json"
    assert {name.partition(".")[0] for name in loaded} == {"infer_api", member.package}
    assert not has_torch
