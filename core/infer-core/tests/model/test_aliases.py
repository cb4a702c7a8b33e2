from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer.model.aliases import Alias, read_aliases
from infer.plugins.discovery import PluginIndex
from infer.plugins.installed import Installed, InstalledEntry
from infer_api.errors import ModelError, PluginError

TINY = {"summary": "Tiny.", "source": "shop", "spec": "tiny", "sha256": "0" * 64}


def index_with(folder: Path, **catalogs: str) -> PluginIndex:
    """Catalogs by distribution, each with this text as its aliases.json."""
    entries = []
    for name, text in catalogs.items():
        package = folder / f"{name}_catalog"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "aliases.json").write_text(text)
        entries.append(InstalledEntry(name, "1.0", "infer.catalog", name, package.name))
    return PluginIndex([], Installed({}, tuple(entries), (str(folder),)))


def catalog(default: str = "", **aliases: dict[str, Any]) -> str:
    return json.dumps({"default": default, "aliases": aliases})


def test_an_installed_catalog_brings_aliases_and_may_name_the_default(tmp_path: Path) -> None:
    aliases = read_aliases(index_with(tmp_path, acme=catalog("tiny", tiny=TINY)))
    assert aliases.get_default() == Alias("tiny", **TINY)
    assert aliases.by_name == {"tiny": aliases.get_default()}


@pytest.mark.parametrize("other", ["acme", "zeta"])
def test_our_own_catalog_wins_over_any_other(other: str, tmp_path: Path) -> None:
    theirs = catalog("more", tiny={**TINY, "spec": "theirs"}, more=TINY)
    aliases = read_aliases(index_with(tmp_path, infer=catalog("tiny", tiny=TINY), **{other: theirs}))
    assert aliases.by_name["tiny"].spec == "tiny"
    assert sorted(aliases.by_name) == ["more", "tiny"]
    assert aliases.default == "tiny"


def test_without_a_catalog_there_is_no_default_model() -> None:
    with pytest.raises(ModelError, match="no catalog is installed that names a default model; .* --model"):
        read_aliases(PluginIndex([])).get_default()


@pytest.mark.parametrize("text", ["{", "[]", '{"aliases": []}'])
def test_a_damaged_catalog_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="aliases.json of acme cannot be read"):
        read_aliases(index_with(tmp_path, acme=text))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({**TINY, "newer": 1}, "unknown keys: newer; upgrade infer-core"),
        ({**TINY, "problem": ""}, "unknown keys: problem"),
        ({"spec": ""}, "it is damaged; reinstall acme"),
        ({**TINY, "source": 1}, "it is damaged"),
        (["tiny"], "it is damaged"),
    ],
)
def test_an_alias_of_another_shape_fails_alone_and_when_it_is_asked_for(
    facts: Any, reason: str, tmp_path: Path
) -> None:
    aliases = read_aliases(index_with(tmp_path, acme=catalog("odd", odd=facts, tiny=TINY)))
    assert aliases.by_name["tiny"] == Alias("tiny", **TINY)
    assert "odd" in aliases.by_name
    with pytest.raises(ModelError, match=f"the alias 'odd' of acme cannot be used: {reason}"):
        aliases.by_name["odd"]
    with pytest.raises(ModelError, match="cannot be used"):
        aliases.get_default()
