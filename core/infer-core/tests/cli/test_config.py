from __future__ import annotations

import json
from pathlib import Path

import pytest


def test_every_value_is_shown_with_its_source(infer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("cache:\n  kv_cache_memory: 1GiB\n")
    monkeypatch.setenv("INFER_SERVER__HOST", "0.0.0.0")
    words = ["--config", str(file), "--port", "9000", "--attention.wave.num-splits", "2"]
    lines = [" ".join(line.split()) for line in infer("config", "show", *words).out.splitlines()]
    assert f"cache.kv_cache_memory = 1073741824 # {file}:2" in lines
    assert "server.host = 0.0.0.0 # INFER_SERVER__HOST" in lines
    assert "server.port = 9000 # --port" in lines
    assert "server.max_n = 128 # default" in lines
    assert "attention.wave.num_splits = 2 # --attention.wave.num-splits" in lines


def test_json_has_value_and_source(infer) -> None:
    found = json.loads(infer("config", "show", "--json", "--port", "9000").out)
    assert found["server.port"] == {"value": 9000, "source": "--port"}
    assert found["attention.name"] == {"value": "auto", "source": "default"}
    assert "attention.wave.num_splits" not in found, "the plugin's own default applies"


def test_secrets_are_hidden(infer) -> None:
    shown = infer("config", "show", "--api-key", "top-secret", "--wave-token", "wave_secret").out
    assert "secret" not in shown.replace("--api-key", "")
    assert "(hidden)" in shown


def test_the_schema_of_files_knows_the_options_of_installed_plugins(infer) -> None:
    schema = json.loads(infer("config", "schema").out)
    attention = schema["properties"]["attention"]
    assert attention["properties"]["wave"]["properties"]["num_splits"]["minimum"] == 1
    assert attention["additionalProperties"] is False
    memory = schema["properties"]["cache"]["properties"]["kv_cache_memory"]
    assert {"type": "string"} in memory["anyOf"][0]["anyOf"]
