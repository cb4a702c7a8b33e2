from __future__ import annotations

from typing import Any

import pytest

from infer.plugins.catalog import offered_by
from infer.plugins.installed import read_installed
from infer_api.errors import PluginError

OFFERS = (
    ("infer-model-a", "models", "a", {"hf": ["AForCausalLM"], "gguf": ["a2"]}),
    ("infer-model-b", "models", "b", {"hf": ["AForCausalLM", "BForCausalLM"]}),
    ("infer-attn-c", "attention", "c", {}),
)


@pytest.mark.parametrize(
    ("kind", "fact", "expected"),
    [
        ("models", "AForCausalLM", ["infer-model-a", "infer-model-b"]),
        ("models", "a2", ["infer-model-a"]),
        ("models", "b", ["infer-model-b"]),
        ("attention", "c", ["infer-attn-c"]),
        ("attention", "AForCausalLM", []),
        ("models", "Unheard", []),
    ],
)
def test_offers_are_found_by_architecture_and_by_name(site: Any, kind: str, fact: str, expected: list[str]) -> None:
    site.catalog(*OFFERS)
    assert offered_by(kind, fact, read_installed([site.root])) == expected


def test_catalogs_of_several_distributions_are_joined(site: Any) -> None:
    site.catalog(OFFERS[0])
    site.catalog(OFFERS[1], owner="more")
    assert offered_by("models", "AForCausalLM", read_installed([site.root])) == ["infer-model-a", "infer-model-b"]


def test_without_a_catalog_nothing_is_offered(site: Any) -> None:
    assert offered_by("models", "AForCausalLM", read_installed([site.root])) == []


@pytest.mark.parametrize("text", ["{", "{}", '{"format": 9, "plugins": []}', '{"format": 1, "plugins": [{}]}', "[]"])
def test_a_damaged_catalog_is_named(site: Any, text: str) -> None:
    site.catalog()
    (site.root / "infer_catalog" / "catalog.json").write_text(text, encoding="utf-8")
    with pytest.raises(PluginError, match="catalog 'infer' of infer .*reinstall infer"):
        offered_by("models", "x", read_installed([site.root]))
