from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from infer_api.manifest import package_manifest
from infer_testkit.plugin import PluginConformance, find_manifest, make_plugin

MANIFEST = """
from infer_api.manifest import OpsPlugin, OpsSupport
PLUGIN = OpsPlugin(name="{name}", summary="s", implementation="{name}.code:Offer",
                   supports=OpsSupport(ops=frozenset(), devices=frozenset({{"*"}})))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes an importable plugin package with an entry point, and returns a conformance object for it."""
    made = []

    def make(name: str, *, init: str = "", code: str = "class Offer: ...") -> PluginConformance:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text(init)
        (folder / "manifest.py").write_text(MANIFEST.format(name=name))
        (folder / "code.py").write_text(code)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[infer.ops]\n{name} = {name}.manifest:PLUGIN\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        made.append(name)
        conformance = type("Kit", (PluginConformance,), {"kind": "ops", "plugin_name": lambda self: name})
        return conformance()

    yield make
    for module in [module for module in sys.modules if module.partition(".")[0] in made]:
        del sys.modules[module]


def test_an_installed_plugin_is_found_by_name() -> None:
    assert find_manifest("quantization", "dense").name == "dense"


def test_an_unknown_name_fails_and_lists_what_is_installed() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"'densse'.*dense"):
        find_manifest("quantization", "densse")


def test_make_plugin_calls_the_implementation_with_its_options() -> None:
    assert callable(make_plugin("quantization", "dense").linear)


def test_a_missing_manifest_file_is_caught(package) -> None:
    conformance = package("kit_demo_missing")
    with pytest.raises(AssertionError, match="python -m infer_api.manifest kit_demo_missing"):
        conformance.test_manifest_file_is_fresh()


def test_a_stale_manifest_file_is_caught(package) -> None:
    conformance = package("kit_demo_stale")
    path, text = package_manifest("kit_demo_stale")
    path.write_text(text)
    conformance.test_manifest_file_is_fresh()
    data = json.loads(text)
    data["plugins"][0]["summary"] = "another one"
    path.write_text(json.dumps(data))
    with pytest.raises(AssertionError, match="stale"):
        conformance.test_manifest_file_is_fresh()


def test_a_heavy_package_is_caught(package) -> None:
    conformance = package("kit_demo_heavy", init="import numpy")
    with pytest.raises(AssertionError, match="loads numpy"):
        conformance.test_importing_loads_nothing_heavy_and_changes_nothing()


def test_an_import_that_changes_the_process_is_caught(package) -> None:
    conformance = package(
        "kit_demo_effects", code="import os, torch\nos.environ['X'] = '1'\ntorch.set_num_threads(7)\nclass Offer: ..."
    )
    with pytest.raises(AssertionError, match="changes environment, number of threads"):
        conformance.test_importing_loads_nothing_heavy_and_changes_nothing()
