from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from infer.plugins.discovery import PluginIndex, discover
from infer_api.errors import PluginError


def reason(site: Any, kind: str = "attention") -> str:
    """Why the only plugin failed."""
    (record,) = site.index().records(kind)
    assert record.state == "failed"
    return record.reason


def test_a_good_plugin_is_compatible_and_nothing_of_it_was_imported(site: Any) -> None:
    package = site.add("infer-attn-demo", name="demo", priority=40, options={"type": "object"}, options_class="m:O")
    record = site.index().get("attention", "demo")
    assert (record.state, record.reason, record.version) == ("compatible", "", "1.0")
    assert (record.distribution, record.package, record.qualified) == (
        "infer-attn-demo",
        package,
        "infer-attn-demo/demo",
    )
    assert (record.priority, record.summary) == (40, "The attention plugin demo.")
    assert (record.options_schema, record.options_class) == ({"type": "object"}, "m:O")
    assert (record.implementation, record.roles) == ("infer_attn_demo.main:Plugin", ("engine",))
    assert package not in sys.modules


def test_this_installation_offers_what_core_offers() -> None:
    index = discover()
    assert index.get("executors", "inline").distribution == "infer-core"
    assert index.get("loaders", "safetensors").state == "compatible"


def test_a_missing_manifest_names_the_command_that_writes_it(site: Any) -> None:
    site.add("infer-demo")
    (site.root / "infer_demo" / "infer-plugin.json").unlink()
    assert "is missing" in reason(site)
    assert reason(site).endswith("write it with: python -m infer_api.manifest infer_demo")


def test_a_missing_package_is_a_reason(site: Any) -> None:
    site.metadata("infer-gone", "1.0", "[infer.attention]\ngone = infer_gone.manifest:PLUGIN\n")
    assert "package 'infer_gone' is not importable" in reason(site)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("{not json", "cannot be read"),
        ([], "schema None, expected 1"),
        ({"schema": 0, "plugins": []}, "schema 0, expected 1"),
        ({"schema": 1}, "schema 1, expected 1"),
        ({"schema": 1, "plugins": []}, "knows nothing of 'infer_demo.manifest:PLUGIN'"),
        ({"schema": 1, "plugins": [{"attribute": "PLUGIN"}]}, "the field 'kind' is missing"),
    ],
)
def test_a_bad_manifest_names_what_is_wrong_and_the_command(site: Any, manifest: Any, words: str) -> None:
    site.metadata("infer-demo", "1.0", "[infer.attention]\nfast = infer_demo.manifest:PLUGIN\n")
    site.package("infer_demo", manifest)
    assert words in reason(site)
    assert "python -m infer_api.manifest infer_demo" in reason(site)


def test_a_manifest_of_the_future_asks_for_an_upgrade(site: Any) -> None:
    site.metadata("infer-demo", "1.0", "[infer.attention]\nfast = infer_demo.manifest:PLUGIN\n")
    site.package("infer_demo", {"schema": 2, "plugins": []})
    assert "newer than 1; upgrade infer-api" in reason(site)


def test_entry_point_and_manifest_must_agree_on_the_name(site: Any) -> None:
    package = site.add("infer-demo", name="fast")
    path = site.root / "infer_demo-1.0.dist-info" / "entry_points.txt"
    path.write_text(f"[infer.attention]\nquick = {package}.manifest:PLUGIN\n", encoding="utf-8")
    assert "entry point 'quick'" in reason(site)
    assert "attention plugin 'fast'" in reason(site)


def test_an_unsupported_contract_version_fails(site: Any) -> None:
    site.add("infer-demo", api=7)
    assert "version 7 of the attention contract" in reason(site)


def test_a_kind_that_nobody_knows_fails(site: Any) -> None:
    site.add("infer-demo", "teapots", "brown")
    assert "the kind 'teapots' is not known" in reason(site, "teapots")


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        ({"modules": ["no_such_module"]}, "needs the module no_such_module"),
        ({"torch": ">=99"}, "needs torch >=99, found 2.13.0"),
        ({"cpu_flags": ["no_such_flag"]}, "no_such_flag"),
    ],
)
def test_unmet_requirements_fail(site: Any, requires: dict[str, Any], words: str) -> None:
    site.metadata("torch", "2.13.0")
    site.add("infer-demo", requires=requires)
    assert words in reason(site)


def test_a_compute_capability_leaves_a_plugin_found_until_a_device_is_known(site: Any) -> None:
    site.add("infer-demo", requires={"compute_capability": "9.0"})
    assert site.index().get("attention", "fast").state == "found"


def test_a_failed_plugin_asked_for_by_name_raises_its_reason(site: Any) -> None:
    site.add("infer-demo", api=7)
    with pytest.raises(PluginError, match=r"'fast' of infer-demo cannot be used: .*version 7"):
        site.index().get("attention", "fast")


def test_an_unknown_name_lists_the_installed_and_near_misses(site: Any) -> None:
    site.add("infer-a", name="quick")
    site.add("infer-b", name="slow")
    with pytest.raises(PluginError, match=r"'quikc' \(installed: quick, slow\)\. Did you mean 'quick'\?"):
        site.index().get("attention", "quikc")
    with pytest.raises(PluginError, match=r"installed: infer-a/quick, infer-b/slow\)\. Did you mean 'infer-a/quick'"):
        site.index().get("attention", "infer-a/quikc")


def test_an_unknown_name_that_a_catalog_offers_says_what_to_install(site: Any) -> None:
    site.catalog(("infer-attn-zoom", "attention", "zoom", {}))
    with pytest.raises(PluginError, match=r"installed: none\)\. 'zoom' is offered by: pip install infer-attn-zoom"):
        site.index().get("attention", "zoom")


@pytest.fixture
def clash(site: Any) -> Callable[[], PluginIndex]:
    site.add("infer-a")
    site.add("infer-b")
    return site.index


def test_a_clash_names_both_owners_and_the_way_out(clash: Callable[[], PluginIndex]) -> None:
    with pytest.raises(PluginError, match="offered by both infer-a and infer-b") as caught:
        clash().get("attention", "fast")
    assert "plugins.prefer = {'attention:fast': 'infer-a'}" in str(caught.value)
    assert "'infer-a/fast'" in str(caught.value)


def test_the_name_with_its_distribution_always_works(clash: Callable[[], PluginIndex]) -> None:
    assert clash().get("attention", "infer-b/fast").distribution == "infer-b"
    assert clash().get("attention", "Infer_B/fast").distribution == "infer-b"


def test_prefer_decides_a_clash(clash: Callable[[], PluginIndex]) -> None:
    index = clash().with_policy(prefer={"attention:fast": "infer_b"})
    assert index.get("attention", "fast").distribution == "infer-b"


def test_prefer_for_a_distribution_that_does_not_offer_it_is_an_error(clash: Callable[[], PluginIndex]) -> None:
    index = clash().with_policy(prefer={"attention:fast": "infer-c"})
    with pytest.raises(PluginError, match="'infer-c', which does not offer it"):
        index.get("attention", "fast")


@pytest.mark.parametrize("word", ["infer-a", "infer_a", "infer-a/fast"])
def test_disabling_one_owner_decides_a_clash(clash: Callable[[], PluginIndex], word: str) -> None:
    assert clash().with_policy(disabled=(word,)).get("attention", "fast").distribution == "infer-b"


def test_a_disabled_plugin_asked_for_by_name_is_an_error(site: Any) -> None:
    site.add("infer-a")
    index = site.index().with_policy(disabled=["attention:fast"])
    with pytest.raises(PluginError, match=r"disabled by plugins\.disabled"):
        index.get("attention", "fast")


def test_incompatible_plugins_may_end_the_start(site: Any) -> None:
    site.add("infer-a", name="old", api=7)
    site.add("infer-b")
    assert site.index().with_policy(on_incompatible="skip").get("attention", "fast")
    with pytest.raises(PluginError, match="'infer-a/old': it is written for version 7"):
        site.index().with_policy(on_incompatible="error")
    assert site.index().with_policy(on_incompatible="error", disabled=["infer-a"]).get("attention", "fast")


def test_a_stale_copy_gives_no_second_record_and_is_told(site: Any) -> None:
    site.add("infer-demo")
    entry_points = (site.root / "infer_demo-1.0.dist-info" / "entry_points.txt").read_text(encoding="utf-8")
    site.metadata("infer-demo", "0.9", entry_points, age_s=60)
    (record,) = site.index().records()
    assert (record.version, record.state) == ("1.0", "compatible")
    assert "another copy of infer-demo (0.9" in record.reason
    assert "remove one of them" in record.reason


def test_kinds_and_distributions(site: Any) -> None:
    site.add("infer-b", "tokenizers", "json")
    site.add("infer-a")
    index = site.index()
    assert index.kinds() == ("attention", "tokenizers")
    assert index.distributions() == {"infer-a": "1.0", "infer-b": "1.0"}
    assert [record.name for record in index.records()] == ["fast", "json"]


def test_first_party_is_what_our_own_catalog_lists(site: Any) -> None:
    site.add("infer-a", name="a")
    site.add("infer-b", name="b")
    assert not any(map(site.index().is_first_party, site.index().records())), "without a catalog nobody is"
    site.catalog(("infer-a", "attention", "a", {}))
    site.catalog(("infer-b", "attention", "b", {}), owner="infer-b-catalog")
    index = site.index()
    assert [index.is_first_party(record) for record in index.records()] == [True, False]


def test_discovery_is_light() -> None:
    banned = {"torch", "numpy", "pydantic", "msgspec", "pluggy", "importlib.metadata", "email", "transformers"}
    code = (
        "import sys; from infer.plugins.discovery import discover; index = discover(); "
        f"assert index.records(); print(*({banned!r} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


@pytest.mark.parametrize("text", ["[" * 200_000, '{"schema": 1, "plugins": [{"attribute": "PLUGIN", "kind": []}]}'])
def test_a_manifest_of_a_wrong_shape_fails_its_own_plugin_only(site: Any, text: str) -> None:
    site.add("infer-good")
    package = site.add("infer-bad", name="bad")
    (site.root / package / "infer-plugin.json").write_text(text)
    states = {record.name: record.state for record in site.index().records()}
    assert states == {"bad": "failed", "fast": "compatible"}
