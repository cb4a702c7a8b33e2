from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import PluginError
from infer_api.manifest import (
    API_VERSIONS,
    AttentionPlugin,
    AttentionSupport,
    CommandPlugin,
    CommandSupport,
    ExecutorPlugin,
    ModelPlugin,
    ModelSupport,
    Plugin,
    Requires,
    RoutesPlugin,
    main,
    manifest_json,
    package_manifest,
    write_manifest,
)
from infer_api.options import Options

SUPPORTS = AttentionSupport(devices=frozenset({"cuda", "cpu"}), dtypes=frozenset({"float32"}))


class Splits(Options):
    num_splits: int = 4
    """Parts that the keys are cut into."""


def attention(**changes: Any) -> AttentionPlugin:
    facts = {"name": "fast", "summary": "Fast.", "implementation": "demo.main:Fast", "supports": SUPPORTS}
    return AttentionPlugin(**{**facts, **changes})


def test_sets_are_written_sorted_and_nested_values_as_plain_data() -> None:
    data = manifest_json(attention(requires=Requires(torch=">=2.11", cpu_flags=("fma", "avx2"))), "PLUGIN")
    assert data["supports"]["devices"] == ["cpu", "cuda"]
    assert data["supports"]["head_sizes"] == {"multiple_of": 1, "maximum": 0}
    assert data["requires"]["cpu_flags"] == ["fma", "avx2"]
    assert (data["kind"], data["name"], data["attribute"], data["api"]) == ("attention", "fast", "PLUGIN", 1)
    assert json.loads(json.dumps(data)) == data


def test_options_are_written_as_their_schema_with_the_docstrings() -> None:
    data = manifest_json(attention(options=Splits), "PLUGIN")
    assert data["options"]["properties"]["num_splits"]["description"] == "Parts that the keys are cut into."
    assert data["options_class"] == f"{Splits.__module__}:Splits"


def test_without_options_both_fields_are_null() -> None:
    data = manifest_json(attention(), "PLUGIN")
    assert (data["options"], data["options_class"]) == (None, None)


def test_options_are_closed_and_frozen() -> None:
    with pytest.raises(ValueError, match="num_split"):
        Splits(num_split=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="frozen"):
        Splits().num_splits = 5  # type: ignore[misc]


def test_kinds_without_needed_facts_have_usable_defaults() -> None:
    common = {"name": "x", "summary": ".", "implementation": "m:X"}
    assert manifest_json(RoutesPlugin(**common), "R")["supports"] == {"tasks": ["generate"]}
    assert "supports" not in manifest_json(ExecutorPlugin(**common), "E")
    command = CommandPlugin(**common, supports=CommandSupport(arguments=(("model?", "help"),)))
    assert manifest_json(command, "C")["supports"]["arguments"] == [["model?", "help"]]
    family = ModelPlugin(**common, supports=ModelSupport(architectures={"hf": ("XForCausalLM",)}))
    assert manifest_json(family, "M")["supports"]["architectures"] == {"hf": ["XForCausalLM"]}


def test_every_kind_of_manifest_has_a_contract_version() -> None:
    kinds = {kind.KIND for kind in Plugin.__subclasses__()}
    assert kinds == set(API_VERSIONS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"implementation": "demo.main"}, "must be 'package.module:Attribute'"),
        ({"priority": 101}, "priority 101 is outside"),
        ({"priority": -1}, "priority -1 is outside"),
    ],
)
def test_a_wrong_manifest_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PluginError, match=f"plugin 'fast': .*{words}"):
        attention(**changes)


MANIFEST = """
from infer_api.manifest import ExecutorPlugin

ONE = ExecutorPlugin(name="one", summary="{summary}", implementation="demo.main:One")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Folder of an importable package with a manifest, named after the test so that none is imported twice."""
    folder = tmp_path / f"demo_{request.node.name.split('[')[0]}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "manifest.py").write_text(MANIFEST.format(summary="First."), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_a_manifest_is_written_beside_its_module(package: Path) -> None:
    assert write_manifest(package.name) is False
    written = json.loads((package / "infer-plugin.json").read_text(encoding="utf-8"))
    assert written["schema"] == 1
    assert [plugin["name"] for plugin in written["plugins"]] == ["one"]
    assert write_manifest(package.name) is True


def test_checking_writes_nothing_and_fails_when_missing_or_stale(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = package / "infer-plugin.json"
    assert main([package.name, "--check"]) == 1
    assert not path.exists()
    assert f"stale; run python -m infer_api.manifest {package.name}" in capsys.readouterr().out
    assert main([package.name]) == 0
    assert main([package.name, "--check"]) == 0
    path.write_text(path.read_text(encoding="utf-8").replace("First.", "Edited."), encoding="utf-8")
    assert main([package.name, "--check"]) == 1
    assert "Edited." in path.read_text(encoding="utf-8")


def test_the_command_writes_and_then_finds_a_changed_manifest_stale(package: Path) -> None:
    def run(*arguments: str) -> int:
        command = [sys.executable, "-m", "infer_api.manifest", package.name, *arguments]
        return subprocess.run(command, cwd=package.parent, capture_output=True, check=False).returncode

    assert run() == 0
    assert run("--check") == 0
    (package / "manifest.py").write_text(MANIFEST.format(summary="Second."), encoding="utf-8")
    assert run("--check") == 1


def test_the_command_without_a_package_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: python -m infer_api.manifest" in capsys.readouterr().err


def test_a_package_without_a_manifest_module_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"'json' has no importable manifest\.py"):
        package_manifest("json")


def test_a_manifest_module_without_plugins_is_an_error(package: Path) -> None:
    (package / "manifest.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(PluginError, match="defines no Plugin object"):
        package_manifest(package.name)
