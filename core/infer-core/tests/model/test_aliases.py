from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infer.model.aliases import default_name, read_aliases
from infer.plugins.discovery import PluginIndex, discover
from infer.plugins.installed import Installed, InstalledEntry
from infer_api.errors import PluginError

ALIAS = {
    "summary": "Tiny.",
    "sha256": "0" * 64,
    "num_bytes": 5,
    "file": "tiny.bin",
    "parts": [{"requirement": "tiny==1", "wheel_sha256": "1" * 64, "wheel_bytes": 9, "member": "tiny/*"}],
}


def index_with_catalog(folder: Path, text: str) -> PluginIndex:
    (folder / "acme_catalog").mkdir()
    (folder / "acme_catalog" / "__init__.py").touch()
    (folder / "acme_catalog" / "aliases.json").write_text(text)
    entry = InstalledEntry("acme", "1.0", "infer.catalog", "acme", "acme_catalog")
    return PluginIndex([], Installed({"acme": "1.0"}, (entry,), (str(folder),)))


def test_core_s_own_aliases_are_complete() -> None:
    aliases = read_aliases(PluginIndex([]))
    assert default_name() in aliases
    for alias in aliases.values():
        assert alias.summary
        assert alias.num_bytes > 0
        for digest in (alias.sha256, *(part.wheel_sha256 for part in alias.parts)):
            assert re.fullmatch("[0-9a-f]{64}", digest)
        assert all("==" in part.requirement for part in alias.parts)


def test_an_installed_catalog_adds_aliases(tmp_path: Path) -> None:
    aliases = read_aliases(index_with_catalog(tmp_path, json.dumps({"aliases": {"tiny": ALIAS}})))
    assert aliases["tiny"].parts[0].member == "tiny/*"
    assert default_name() in aliases


def test_a_catalog_cannot_replace_an_alias_of_core(tmp_path: Path) -> None:
    aliases = read_aliases(index_with_catalog(tmp_path, json.dumps({"aliases": {default_name(): ALIAS}})))
    assert aliases[default_name()].sha256 != "0" * 64


@pytest.mark.parametrize("text", ["{", '{"aliases": {"tiny": {"parts": []}}}', "[]"])
def test_a_damaged_catalog_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="aliases.json of acme cannot be read"):
        read_aliases(index_with_catalog(tmp_path, text))


def test_aliases_of_what_is_installed_here_can_be_read() -> None:
    assert default_name() in read_aliases(discover())
