"""What is generated is what it was generated from: no stale infer-plugin.json, catalog or schema of the options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import write_catalog
import write_schema
from infer_api.manifest import MANIFEST_FILE, package_manifest
from members import ROOT, Member, find_members
from sample_tree import write_member

# Hooks are objects and the catalog is data: neither has a manifest.
WITHOUT_MANIFEST = {"infer.hooks", "infer.catalog"}

MEMBERS = find_members()
WITH_MANIFEST = [member for member in MEMBERS if set(member.entry_points) - WITHOUT_MANIFEST]

MANIFEST_PY = """
from infer_api.manifest import AttentionPlugin, AttentionSupport

PLUGIN = AttentionPlugin(
    name="sample",
    summary="{summary}",
    implementation="{package}.backend:Backend",
    supports=AttentionSupport(devices=frozenset({{"cpu"}}), dtypes=frozenset({{"float32"}})),
)
"""


def name_of(member: Member) -> str:
    return member.name


@pytest.mark.parametrize("member", WITH_MANIFEST, ids=name_of)
def test_the_manifest_file_is_what_the_manifest_module_says(member: Member) -> None:
    path, text = package_manifest(member.package)
    assert path.resolve() == member.source / MANIFEST_FILE, f"{member.package} is imported from elsewhere"
    assert path.read_text(encoding="utf-8") == text, f"run: python -m infer_api.manifest {member.package}"


@pytest.mark.parametrize("member", WITH_MANIFEST, ids=name_of)
def test_entry_points_and_manifest_name_the_same_plugins(member: Member) -> None:
    plugins = json.loads((member.source / MANIFEST_FILE).read_text(encoding="utf-8"))["plugins"]
    said = {
        (f"infer.{plugin['kind']}", plugin["name"], f"{member.package}.manifest:{plugin['attribute']}")
        for plugin in plugins
    }
    groups = {group: names for group, names in member.entry_points.items() if group not in WITHOUT_MANIFEST}
    assert said == {(group, name, value) for group, names in groups.items() for name, value in names.items()}


def test_every_plugin_distribution_offers_something() -> None:
    assert [member.name for member in MEMBERS if member.is_plugin and not member.entry_points] == []


def test_the_catalog_is_fresh() -> None:
    assert write_catalog.main(["--check"]) == 0


def test_the_schema_of_the_options_is_fresh() -> None:
    assert write_schema.main(["--check"]) == 0


def test_a_stale_schema_is_found_and_rewritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schema.json"
    file.write_text("{}", encoding="utf-8")
    assert write_schema.main(["--check"], file) == 1
    assert "stale; run make manifests" in capsys.readouterr().err
    assert write_schema.main([], file) == 0
    assert write_schema.main(["--check"], file) == 0


def check_manifest(root: Path, package: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "infer_api.manifest", package, "--check"]
    environment = {**os.environ, "PYTHONPATH": str(root / "plugins" / "infer-sample" / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def write_sample(root: Path, package: str, summary: str) -> Path:
    text = MANIFEST_PY.format(package=package, summary=summary)
    entry_point = ("attention", "sample")
    return write_member(root, "plugins/infer-sample", package, {"manifest.py": text}, entry_point=entry_point)


def test_a_missing_or_stale_manifest_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = "infer_sample_stale"
    source = write_sample(tmp_path, package, "First words.")
    assert check_manifest(tmp_path, package).returncode == 1, "a missing file counts as stale"

    monkeypatch.syspath_prepend(source.parent)
    path, text = package_manifest(package)
    path.write_text(text, encoding="utf-8")
    assert check_manifest(tmp_path, package).returncode == 0

    (source / "manifest.py").write_text(MANIFEST_PY.format(package=package, summary="Second words."), encoding="utf-8")
    stale = check_manifest(tmp_path, package)
    assert stale.returncode == 1
    assert f"python -m infer_api.manifest {package}" in stale.stdout + stale.stderr


def test_a_stale_catalog_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = "infer_sample_catalog"
    source = write_sample(tmp_path, package, "Some words.")
    monkeypatch.syspath_prepend(source.parent)
    path, text = package_manifest(package)
    path.write_text(text, encoding="utf-8")
    (tmp_path / write_catalog.CATALOG).parent.mkdir(parents=True)

    assert write_catalog.main(["--check"], tmp_path) == 1
    assert write_catalog.main([], tmp_path) == 0
    assert write_catalog.main(["--check"], tmp_path) == 0
    path.write_text(text.replace("Some words.", "Other words."), encoding="utf-8")
    assert write_catalog.main(["--check"], tmp_path) == 1


def test_the_catalog_names_architectures_and_the_distribution() -> None:
    catalog = json.loads((ROOT / write_catalog.CATALOG).read_text(encoding="utf-8"))
    assert catalog["format"] == 1
    offers = {plugin["distribution"] for plugin in catalog["plugins"] if plugin["architectures"]}
    families = {member.name for member in MEMBERS if "infer.models" in member.entry_points}
    assert offers == families
    assert families, "no model family was found"
