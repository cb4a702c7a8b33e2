"""What every plugin has to satisfy, whatever its kind. The conformance classes of the kinds build on it."""

from __future__ import annotations

import importlib
import json
import secrets
import subprocess
import sys
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar

import pytest
import torch

from infer_api.manifest import API_VERSIONS, Plugin, package_manifest

__all__ = ["PluginConformance", "find_manifest", "load_implementation", "make_options", "make_plugin"]

HEAVY = ("torch", "numpy", "transformers", "fastapi", "safetensors", "tokenizers", "zmq")
"""Modules that a manifest must not load: discovery and help have to stay quick."""

PROBE = """
import importlib, json, os, sys, threading
package, implementation, heavy = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
importlib.import_module(package), importlib.import_module(package + ".manifest")
loaded = [name for name in heavy if name in sys.modules]
import torch
before = (dict(os.environ), torch.get_default_dtype(), torch.get_num_threads(), threading.active_count())
importlib.import_module(implementation)
after = (dict(os.environ), torch.get_default_dtype(), torch.get_num_threads(), threading.active_count())
names = ("environment", "default dtype", "number of threads", "running threads")
print(json.dumps([loaded, [n for n, b, a in zip(names, before, after) if b != a]]))
"""


def find_manifest(kind: str, name: str) -> Plugin:
    """Manifest of the installed plugin `name`. Fails the test when it is not installed, listing what is."""
    found = {point.name: point for point in entry_points(group=f"infer.{kind}")}
    if name not in found:
        pytest.fail(
            f"no plugin of kind {kind} is installed as {name!r}; installed: {', '.join(sorted(found)) or 'none'}"
        )
    manifest = found[name].load()
    assert isinstance(manifest, Plugin), f"the entry point {name!r} is a {type(manifest).__name__}, not a manifest"
    return manifest


def load_implementation(manifest: Plugin) -> Any:
    """The object that the manifest's import path names."""
    module, _, attribute = manifest.implementation.partition(":")
    return getattr(importlib.import_module(module), attribute)


def make_options(manifest: Plugin, **options: Any) -> Any:
    """The plugin's typed options, or None when it has none."""
    if manifest.options is None:
        assert not options, f"plugin {manifest.name!r} has no options, but was given {sorted(options)}"
        return None
    return manifest.options(**options)


def make_plugin(kind: str, name: str, **options: Any) -> Any:
    """Build the installed plugin `name` the way core does: its implementation called with its options."""
    manifest = find_manifest(kind, name)
    return load_implementation(manifest)(make_options(manifest, **options))


@cache
def _probe_imports(package: str, module: str) -> tuple[int, str, str]:
    """Exit status and output of a fresh interpreter that imports both; a package has several conformance classes."""
    command = [sys.executable, "-W", "error", "-c", PROBE, package, module, ",".join(HEAVY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class PluginConformance:
    """Checks that hold for every kind. Subclasses set `kind` and say the plugin's name."""

    kind: ClassVar[str]

    seed: ClassVar[int | None] = None
    """Set it to the seed of a failure to repeat the failure."""

    def plugin_name(self) -> str:
        """Name under which the plugin is registered."""
        raise NotImplementedError

    @pytest.fixture
    def rng(self, request: pytest.FixtureRequest) -> torch.Generator:
        """Random numbers of this test; the seed is shown with a failure."""
        seed = self.seed if self.seed is not None else secrets.randbelow(2**31)
        request.node.add_report_section("call", "seed", f"seed = {seed}   # set it in the class to repeat")
        return torch.Generator().manual_seed(seed)

    def test_manifest_states_kind_name_and_known_contract_version(self) -> None:
        manifest = find_manifest(self.kind, self.plugin_name())
        assert (manifest.KIND, manifest.name) == (self.kind, self.plugin_name())
        assert manifest.api in API_VERSIONS[self.kind]

    def test_manifest_file_is_fresh(self) -> None:
        package = self._package()
        path, text = package_manifest(package)
        assert path.is_file(), f"{path.name} is missing; run python -m infer_api.manifest {package}"
        fresh = json.loads(path.read_text(encoding="utf-8")) == json.loads(text)
        assert fresh, f"{path.name} is stale; run python -m infer_api.manifest {package}"

    def test_every_option_is_documented(self) -> None:
        manifest = find_manifest(self.kind, self.plugin_name())
        fields = manifest.options.model_fields if manifest.options is not None else {}
        assert [name for name, field in fields.items() if not field.description] == []

    def test_importing_loads_nothing_heavy_and_changes_nothing(self) -> None:
        manifest = find_manifest(self.kind, self.plugin_name())
        module = manifest.implementation.partition(":")[0]
        status, report, errors = _probe_imports(self._package(), module)
        assert status == 0, f"importing {module} failed:\n{errors}"
        heavy, changed = json.loads(report)
        assert heavy == [], f"{self._package()}.manifest loads {', '.join(heavy)}"
        assert changed == [], f"importing {module} changes {', '.join(changed)} of the process"

    def _package(self) -> str:
        manifest = find_manifest(self.kind, self.plugin_name())
        return manifest.implementation.partition(":")[0].partition(".")[0]
