from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.select import (
    explain_rows,
    fits_attention,
    fits_loader,
    fits_model,
    fits_quantization,
    fits_source,
    fits_tokenizer,
    select,
)
from infer_api.errors import PluginError
from infer_api.specs import Reason


def record(name: str, priority: int = 10, kind: str = "attention", owner: str = "", **supports: Any) -> PluginRecord:
    data = {"priority": priority, "supports": supports, "requires": supports.pop("requires", {})}
    return PluginRecord(kind, name, owner or f"infer-{name}", "1.0", name, data, "compatible")


def everything(_: PluginRecord) -> Reason | None:
    return None


def not_slow(record: PluginRecord) -> Reason | None:
    return Reason("it is too slow") if record.name == "slow" else None


def test_auto_takes_the_highest_priority_that_fits_and_keeps_every_reason() -> None:
    index = PluginIndex([record("slow", 90), record("good", 50), record("fair", 20)])
    selection = select(index, "attention", "auto", not_slow)
    assert (selection.winner.name, selection.because) == ("good", "priority 50, the highest of 2 that fit")
    assert {loser.name: reason.text for loser, reason in selection.losers} == {
        "slow": "it is too slow",
        "fair": "priority 20 is lower than 50 of 'good'",
    }


def test_the_only_one_that_fits_is_taken() -> None:
    selection = select(PluginIndex([record("slow"), record("good")]), "attention", "auto", not_slow)
    assert (selection.winner.name, selection.because) == ("good", "the only one that fits")


def test_an_explicit_choice_wins_over_priority() -> None:
    index = PluginIndex([record("good", 50), record("fair", 20), record("slow")])
    selection = select(index, "attention", "fair", not_slow)
    assert (selection.winner.name, selection.because) == ("fair", "asked for by name")
    reasons = {loser.name: reason.text for loser, reason in selection.losers}
    assert reasons == {"good": "'fair' was asked for", "slow": "it is too slow"}


def test_an_explicit_choice_that_does_not_fit_is_an_error_with_the_reason() -> None:
    index = PluginIndex([record("good"), record("slow")])
    with pytest.raises(PluginError, match=r"'slow' cannot be used: it is too slow \(plugins that fit: good\)"):
        select(index, "attention", "slow", not_slow)


def test_an_explicit_choice_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(PluginError, match="Did you mean 'good'"):
        select(PluginIndex([record("good")]), "attention", "goood", everything)


def broken(record: PluginRecord) -> Reason | None:
    if record.name == "broken":
        raise PluginError("its library is missing")
    return None


def test_a_plugin_that_breaks_when_it_is_asked_loses_and_harms_no_other() -> None:
    index = PluginIndex([record("broken", 90, "platforms"), record("good", 10, "platforms")])
    selection = select(index, "platforms", "auto", broken)
    assert selection.winner.name == "good"
    assert [reason.text for _, reason in selection.losers] == ["its library is missing"]


def test_a_plugin_that_breaks_is_an_error_when_it_is_asked_for_by_name() -> None:
    index = PluginIndex([record("broken", 90, "platforms"), record("good", 10, "platforms")])
    with pytest.raises(PluginError, match="'broken' cannot be used: its library is missing"):
        select(index, "platforms", "broken", broken)


def test_a_tie_is_an_error_naming_both_and_the_option() -> None:
    index = PluginIndex([record("one"), record("two"), record("low", 1)])
    with pytest.raises(PluginError, match="infer-one/one and infer-two/two") as caught:
        select(index, "attention", "auto", everything)
    assert "--attention.name one" in str(caught.value)


def test_a_tie_of_model_families_names_the_way_out() -> None:
    index = PluginIndex([record("one", kind="models"), record("two", kind="models")])
    with pytest.raises(PluginError, match=r"plugins\.disabled, such as 'models:two'"):
        select(index, "models", "auto", everything)


def test_when_none_fits_every_reason_is_listed() -> None:
    failed = PluginRecord("attention", "broken", "infer-broken", "1.0", "b", {}, "failed", "its manifest is missing")
    index = PluginIndex([record("slow"), failed])
    with pytest.raises(PluginError) as caught:
        select(index, "attention", "auto", not_slow)
    assert "infer-slow/slow: it is too slow" in str(caught.value)
    assert "infer-broken/broken: its manifest is missing" in str(caught.value)


def test_when_none_is_installed_the_error_says_so() -> None:
    with pytest.raises(PluginError, match="no attention plugin is installed"):
        select(PluginIndex([]), "attention", "auto", everything)


def test_when_no_family_fits_the_catalog_names_what_to_install(site: Any) -> None:
    site.add("infer-model-a", "models", "a", supports={"architectures": {"hf": ["AForCausalLM"]}})
    site.catalog(
        ("infer-model-a", "models", "a", {"hf": ["AForCausalLM"]}),
        ("infer-model-b", "models", "b", {"hf": ["BForCausalLM"]}),
    )
    fits = fits_model("BForCausalLM", "hf")
    with pytest.raises(PluginError, match="pip install infer-model-b") as caught:
        select(site.index(), "models", "auto", fits, fact="BForCausalLM")
    assert "it serves AForCausalLM of dialect 'hf', not 'BForCausalLM'" in str(caught.value)


def test_a_clash_of_names_in_auto_is_an_error_unless_preferred() -> None:
    index = PluginIndex([record("x", 50, owner="infer-a"), record("x", 20, owner="infer-b")])
    with pytest.raises(PluginError, match="offered by both infer-a and infer-b"):
        select(index, "attention", "auto", everything)
    preferring = index.with_policy(prefer={"attention:x": "infer-b"})
    selection = select(preferring, "attention", "auto", everything)
    assert selection.winner.distribution == "infer-b"
    assert selection.losers[0][1].text == "plugins.prefer gives its name to another distribution"


def test_auto_takes_a_third_party_only_if_listed_where_ours_fits(site: Any) -> None:
    site.add("infer-ours", name="ours", priority=10)
    site.add("foreign", name="theirs", priority=90)
    site.catalog(("infer-ours", "attention", "ours", {}))
    selection = select(site.index(), "attention", "auto", everything)
    assert selection.winner.name == "ours"
    assert "add 'foreign' to plugins.listed" in selection.losers[0][1].text
    listed = site.index().with_policy(listed=["foreign"])
    assert select(listed, "attention", "auto", everything).winner.name == "theirs"
    assert select(site.index(), "attention", "theirs", everything).winner.name == "theirs"


def test_auto_takes_a_third_party_for_a_role_that_ours_does_not_fill(site: Any) -> None:
    site.add("infer-ours", name="slow")
    site.add("foreign", name="theirs")
    site.catalog(("infer-ours", "attention", "slow", {}))
    assert select(site.index(), "attention", "auto", not_slow).winner.name == "theirs"


def test_explain_rows_start_with_the_winner() -> None:
    index = PluginIndex([record("a", 1), record("slow", 90), record("z", 50)])
    rows = explain_rows(select(index, "attention", "auto", not_slow))
    assert [tuple(row) for row in rows] == [
        ("z", "infer-z", "taken", "priority 50, the highest of 2 that fit"),
        ("a", "infer-a", "not taken", "priority 1 is lower than 50 of 'z'"),
        ("slow", "infer-slow", "not taken", "it is too slow"),
    ]


ATTENTION = {
    "devices": ["cuda"],
    "dtypes": ["bfloat16", "float16"],
    "head_sizes": {"multiple_of": 8, "maximum": 256},
    "features": ["sliding_window", "softcap"],
    "requires": {"compute_capability": "9.0"},
}


@pytest.mark.parametrize(
    ("device", "dtype", "head_size", "features", "capability", "reason"),
    [
        ("cuda", "float16", 64, {"softcap"}, "9.0", None),
        ("cpu", "float16", 64, (), "9.0", "it runs on cuda, not cpu"),
        ("cuda", "float32", 64, (), "9.0", "it computes in bfloat16, float16, not float32"),
        ("cuda", "float16", 60, (), "9.0", "it takes head sizes that are multiples of 8, not 60"),
        ("cuda", "float16", 512, (), "9.0", "it takes head sizes up to 256, not 512"),
        ("cuda", "float16", 64, {"sinks", "softcap", "mla"}, "9.0", "it lacks mla, sinks"),
        ("cuda", "float16", 64, (), "8.0", "it needs compute capability 9.0, the device has 8.0"),
    ],
)
def test_attention(device: str, dtype: str, head_size: int, features: Any, capability: str, reason: str | None) -> None:
    fits = fits_attention(device, dtype, head_size, features, compute_capability=capability)
    found = fits(record("x", **ATTENTION))
    assert (found.text if found else None) == reason


def test_attention_on_any_device_without_bounds() -> None:
    fits = fits_attention("npu", "float32", 1000)
    assert fits(record("x", devices=["*"], dtypes=["float32"], head_sizes={"multiple_of": 1, "maximum": 0})) is None


def test_models_fit_by_architecture_and_dialect() -> None:
    family = record("x", kind="models", architectures={"hf": ["XForCausalLM"], "gguf": ["x"]})
    assert fits_model("XForCausalLM", "hf")(family) is None
    assert fits_model("x", "gguf")(family) is None
    assert fits_model("XForCausalLM", "gguf")(family) == Reason("it serves x of dialect 'gguf', not 'XForCausalLM'")
    assert fits_model("x", "onnx")(family) == Reason("it serves none of dialect 'onnx', not 'x'")


def test_sources_fit_by_prefix_or_by_what_bare_names_look_like() -> None:
    shop = record("x", prefix="shop:", bare="[a-z]+/[a-z]+", usage="shop:NAME")
    assert [name for name in ("shop:x", "a/b", "a/b/c", "a", "shop") if fits_source(name)(shop) is None] == [
        "shop:x",
        "a/b",
    ]
    assert fits_source("a")(shop) == Reason("it serves names such as shop:NAME")
    assert fits_source("a")(record("y")) is not None


def test_quantization_fits_by_dialect_method_device_and_dtype() -> None:
    method = record("x", dialects=["hf"], methods=["awq"], devices=["cuda"], dtypes=["float16"])
    assert fits_quantization("hf", "awq", "cuda", "float16")(method) is None
    reasons = [
        fits_quantization("gguf", "awq", "cuda", "float16")(method),
        fits_quantization("hf", "", "cuda", "float16")(method),
        fits_quantization("hf", "awq", "cpu", "float16")(method),
        fits_quantization("hf", "awq", "cuda", "float32")(method),
    ]
    assert [reason.text for reason in reasons if reason] == [
        "it reads checkpoints of dialect hf, not gguf",
        "it implements awq, not no method named",
        "it runs on cuda, not cpu",
        "it computes in float16, not float32",
    ]


def test_plain_weights_fit_any_dialect_that_names_no_method() -> None:
    plain = record("x", dialects=["*"], methods=[""], devices=["*"], dtypes=["float32"])
    assert fits_quantization("hf", "", "cpu", "float32")(plain) is None
    assert fits_quantization("hf", "awq", "cpu", "float32")(plain) == Reason("it implements no method named, not awq")


def test_loaders_fit_files_by_suffix_and_folders_by_content(tmp_path: Path) -> None:
    single = record("file", kind="loaders", suffixes=[".gguf"])
    folder = record("folder", kind="loaders", contains=["config.json", "*.safetensors"])
    assert fits_loader(tmp_path / "Model.GGUF")(single) is None
    wrong_suffix = fits_loader(str(tmp_path / "model.bin"))(single)
    assert wrong_suffix == Reason("it opens files ending in .gguf, not 'model.bin'")
    assert "holds none of it" in getattr(fits_loader(tmp_path)(folder), "text", "")
    (tmp_path / "a.safetensors").touch()
    assert fits_loader(tmp_path)(folder) is None
    assert fits_loader(tmp_path)(single) is not None
    assert fits_loader(tmp_path / "a.safetensors")(folder) is not None


def test_tokenizers_fit_by_format() -> None:
    tokenizer = record("x", kind="tokenizers", formats=["tokenizer.json"])
    assert fits_tokenizer("tokenizer.json")(tokenizer) is None
    assert fits_tokenizer("spm")(tokenizer) == Reason("it reads tokenizer.json, not spm")


def test_a_loader_of_files_says_that_it_opens_no_folders(tmp_path: Path) -> None:
    loader = PluginRecord("loaders", "files", "acme", "1.0", "acme", {"supports": {"suffixes": [".x"]}})
    assert fits_loader(tmp_path)(loader) == Reason(f"it opens no folders, and {tmp_path} is one")
