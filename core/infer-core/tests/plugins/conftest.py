"""A made-up folder of installed distributions, in which plugins can be good or broken in any way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infer.plugins.discovery import PluginIndex

ATTENTION = {"devices": ["*"], "dtypes": ["float32"], "head_sizes": {"multiple_of": 1, "maximum": 0}, "features": []}


def manifest_entry(kind: str, name: str, package: str, **changes: Any) -> dict[str, Any]:
    """One plugin as it stands in infer-plugin.json."""
    entry: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "summary": f"The {kind} plugin {name}.",
        "implementation": f"{package}.main:Plugin",
        "api": 1,
        "priority": 10,
        "roles": ["engine"],
        "requires": {"modules": [], "torch": "", "compute_capability": "", "cpu_flags": []},
        "supports": dict(ATTENTION) if kind == "attention" else {},
        "attribute": "PLUGIN",
        "options": None,
        "options_class": None,
    }
    requires = {**entry["requires"], **changes.pop("requires", {})}
    return {**entry, "requires": requires, **changes}


class FakeSite:
    """Writes `*.dist-info` folders and packages into one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def metadata(self, distribution: str, version: str, entry_points: str = "", *, age_s: int = 0) -> Path:
        folder = self.root / f"{distribution.replace('-', '_')}-{version}.dist-info"
        folder.mkdir(parents=True)
        if entry_points:
            (folder / "entry_points.txt").write_text(entry_points, encoding="utf-8")
        written = folder.stat().st_mtime - age_s
        os.utime(folder, (written, written))
        return folder

    def package(self, package: str, manifest: Any = None, code: str = "") -> Path:
        """A package whose manifest.py and __init__.py fail when imported: discovery must not."""
        folder = self.root / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("" if code else "raise RuntimeError('imported')\n", encoding="utf-8")
        if code:
            (folder / "main.py").write_text(code, encoding="utf-8")
        if manifest is not None:
            text = manifest if isinstance(manifest, str) else json.dumps(manifest)
            (folder / "infer-plugin.json").write_text(text, encoding="utf-8")
        return folder

    def add(
        self, distribution: str, kind: str = "attention", name: str = "fast", *, code: str = "", **changes: Any
    ) -> str:
        """Install one good plugin, but for `changes` of its manifest entry. Returns the package's name."""
        package = distribution.replace("-", "_")
        value = f"{package}.manifest:PLUGIN"
        self.metadata(distribution, "1.0", f"[infer.{kind}]\n{name} = {value}\n")
        manifest = {"schema": 1, "plugins": [manifest_entry(kind, name, package, **changes)]}
        self.package(package, manifest, code)
        return package

    def catalog(self, *offers: tuple[str, str, str, dict[str, list[str]]], owner: str = "infer") -> None:
        """Install a catalog of (distribution, kind, name, architectures)."""
        package = f"{owner.replace('-', '_')}_catalog"
        self.metadata(owner, "1.0", f"[infer.catalog]\n{owner} = {package}\n")
        keys = ("distribution", "kind", "name", "architectures")
        plugins = [{**dict(zip(keys, offer, strict=True)), "summary": "."} for offer in offers]
        text = json.dumps({"format": 1, "plugins": plugins})
        (self.package(package) / "catalog.json").write_text(text, encoding="utf-8")

    def index(self) -> PluginIndex:
        return PluginIndex.discover([self.root])


@pytest.fixture
def site(tmp_path: Path) -> FakeSite:
    return FakeSite(tmp_path)
