from __future__ import annotations

import json

import pytest


def test_facts_for_a_bug_report_are_printed(infer) -> None:
    shown = infer("env")
    assert shown.status == 0
    for word in ("infer: 0.", "python: 3.", "cpu flags:", "memory:", "  torch: 2.", "plugin digest:"):
        assert word in shown.out
    assert "attention:acme-moon/moon: failed, it needs a moon" in shown.out


def test_json_has_the_digest_of_the_usable_plugins(infer) -> None:
    found = json.loads(infer("env", "--json").out)
    assert len(found["plugin digest"]) == 16
    assert found["distributions"]["acme-wave"] == "1.0"
    # A build may add a local part to its version, such as "+cu130".
    assert found["torch"]["version"].startswith(found["packages"]["torch"])


def test_a_wrong_variable_is_reported(infer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_NONSENSE", "1")
    assert infer("env").status == 2
