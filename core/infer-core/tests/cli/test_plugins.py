from __future__ import annotations

import json


def test_the_list_has_a_line_per_plugin_by_kind(infer) -> None:
    shown = infer("plugins", "list")
    assert shown.status == 0
    lines = shown.out.splitlines()
    assert lines[0] == "attention"
    assert "  moon (acme-moon 1.0)  FAILED: it needs a moon" in lines
    assert "  wave (acme-wave 1.0)  Waves." in lines
    assert "commands" in lines


def test_json_holds_the_whole_manifest(infer) -> None:
    found = json.loads(infer("plugins", "list", "--json").out)
    (wave,) = (one for one in found if one["name"] == "wave")
    assert wave["kind"] == "attention"
    assert wave["supports"]["dtypes"] == ["float32"]
    assert wave["options"]["properties"]["num_splits"]["default"] == 4


def test_one_plugin_is_shown_by_any_of_its_names(infer) -> None:
    shown = infer("plugins", "show", "wave").out
    assert "attention:wave" in shown
    assert "acme-wave 1.0 (package acme)" in shown
    assert "--attention.wave.num-splits INT" in shown
    for name in ("attention:wave", "acme-wave/wave", "acme-wave"):
        assert infer("plugins", "show", name).out == shown


def test_a_plugin_that_is_not_installed_is_an_error_with_near_misses(infer) -> None:
    shown = infer("plugins", "show", "wav")
    assert shown.status == 2
    assert "no plugin 'wav' is installed. Did you mean 'wave'" in shown.err
    assert infer("plugins", "show").status == 2
    assert infer("plugins", "list", "wave").status == 2
