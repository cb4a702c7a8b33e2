from __future__ import annotations

from pathlib import Path

import pytest

from infer.config.flags import parse_words
from infer.config.load import Effective, load_config, read_environment
from infer.config.table import OptionTable
from infer.plugins.discovery import PluginIndex
from infer_api.errors import ConfigError


def load(index: PluginIndex, table: OptionTable, *words: str, file: Path | None = None, **environ: str) -> Effective:
    flags = parse_words(words, table.by_flag)[1]
    return load_config(index, file=file, environ=environ, flags=flags, table=table)


def test_flags_win_over_the_environment_and_that_over_the_file(
    index: PluginIndex, table: OptionTable, tmp_path: Path
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("server:\n  port: 1\n  host: file\ncache:\n  block_tokens: 32\n")
    found = load(index, table, "--port", "3", file=file, INFER_SERVER__PORT="2", INFER_SERVER__HOST="env")
    assert (found.config.server.port, found.config.server.host, found.config.cache.block_tokens) == (3, "env", 32)
    assert found.source("server.port") == "--port"
    assert found.source("server.host") == "INFER_SERVER__HOST"
    assert found.source("cache.block_tokens") == f"{file}:5"
    assert found.source("server.max_n") == "default"


def test_well_known_variables_are_read(index: PluginIndex, table: OptionTable) -> None:
    found = load(index, table, INFER_HOME="/models", INFER_API_KEY="k1,k2", WAVE_TOKEN="t")
    assert found.config.load.home == "/models"
    assert found.config.server.api_keys == ("k1", "k2")
    assert found.config.options("attention", "wave") == {"token": "t"}
    assert found.source("attention.wave.token") == "WAVE_TOKEN"


def test_options_of_a_plugin_are_split_off_from_every_source(
    index: PluginIndex, table: OptionTable, tmp_path: Path
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("attention:\n  wave:\n    mode: exact\n")
    found = load(index, table, "--attention.wave.fused", file=file, INFER_ATTENTION__WAVE__NUM_SPLITS="8")
    assert found.config.options("attention", "wave") == {"mode": "exact", "num_splits": 8, "fused": True}
    assert found.source("attention.wave.num_splits") == "INFER_ATTENTION__WAVE__NUM_SPLITS"


def test_variables_of_others_and_empty_ones_are_left_alone(table: OptionTable) -> None:
    assert read_environment({"PATH": "/bin", "INFERNO": "1", "INFER_SERVER__PORT": ""}, table) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "INFER_SERVER__PROT",
            "1",
            "unknown environment variable INFER_SERVER__PROT. Did you mean 'INFER_SERVER__PORT'",
        ),
        ("INFER_SERVER__PORT", "x", "INFER_SERVER__PORT must be int, found 'x'"),
        (
            "INFER_ATTENTION__NAME",
            "wav",
            "no attention plugin 'wav' is installed (installed: broken, wave). Did you mean",
        ),
        ("INFER_ATTENTION__NAME", "broken", "'broken' cannot be used: it needs a moon"),
        ("INFER_SERVER__PORT", "70000", "INFER_SERVER__PORT must be at most 65535, found 70000"),
        ("INFER_CACHE__KV_CACHE_MEMORY", "much", "must be size such as 512MiB or 2GiB, found 'much'"),
    ],
)
def test_a_wrong_variable_ends_in_one_line(
    name: str, value: str, words: str, index: PluginIndex, table: OptionTable
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(index, table, **{name: value})
    assert words in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_value_in_a_file_names_path_and_line(index: PluginIndex, table: OptionTable, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("server:\n  port: eighty\n")
    with pytest.raises(ConfigError, match=rf"server.port \(from {file}:2\) must be int, found 'eighty'"):
        load(index, table, file=file)
    file.write_text("attention:\n  wave:\n    num_splits: 0\n")
    with pytest.raises(ConfigError, match=r"attention.wave.num_splits .*:3\) must be at least 1, found 0"):
        load(index, table, file=file)


def test_a_plugin_may_be_named_with_its_distribution(index: PluginIndex, table: OptionTable) -> None:
    assert load(index, table, "--attention-backend", "acme-wave/wave").config.attention.name == "acme-wave/wave"


def test_the_model_s_name_is_no_plugin(index: PluginIndex, table: OptionTable) -> None:
    assert load(index, table, "--model", "anything").config.model.name == "anything"


def test_the_process_environment_is_read_when_none_is_given(
    index: PluginIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFER_SERVER__PORT", "1234")
    assert load_config(index).config.server.port == 1234


def test_a_short_spelling_stays_with_whoever_has_it(index: PluginIndex, table: OptionTable) -> None:
    found = load(index, table, "--wave-token", "t", "--port", "9", INFER_HOME="/models")
    assert found.config.options("attention", "wave") == {"token": "t"}
    assert (found.config.server.port, found.config.load.home) == (9, "/models")


@pytest.mark.parametrize("text", ["", "  ", ","])
def test_a_variable_or_flag_for_keys_that_holds_none_is_refused(
    index: PluginIndex, table: OptionTable, text: str
) -> None:
    with pytest.raises(ConfigError, match=r"server.api_keys \(from INFER_API_KEY\) is empty"):
        load(index, table, INFER_API_KEY=text)
    with pytest.raises(ConfigError, match=r"server.api_keys \(from --api-key\) is empty"):
        load(index, table, "--api-key", text)


def test_keys_of_the_wrong_form_are_not_repeated(index: PluginIndex, table: OptionTable, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("server:\n  api_keys: [31415926]\n")
    with pytest.raises(ConfigError, match="server.api_keys .* is of the wrong form") as caught:
        load(index, table, file=tmp_path / "c.yaml")
    assert "31415926" not in str(caught.value)


def test_an_empty_list_of_keys_in_a_file_is_refused(index: PluginIndex, table: OptionTable, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("server:\n  api_keys: []\n")
    with pytest.raises(ConfigError, match="server.api_keys .* is empty"):
        load(index, table, file=tmp_path / "c.yaml")


def test_an_empty_variable_of_a_single_secret_is_unset(table: OptionTable) -> None:
    assert read_environment({"WAVE_TOKEN": ""}, table) == []


def test_variables_of_a_kubernetes_service_called_infer_are_left_alone(table: OptionTable) -> None:
    address = "tcp://10.0.0.1:8000"
    service = {"INFER_SERVICE_HOST": "10.0.0.1", "INFER_SERVICE_PORT": "8000", "INFER_SERVICE_PORT_HTTP": "8000"}
    assert read_environment({**service, "INFER_PORT": address, "INFER_PORT_8000_TCP": address}, table) == []


@pytest.mark.parametrize("name", ["INFER_PORT", "INFER_SERVER_PORT", "INFER_PORT__X", "INFER_SERVICE__PORT"])
def test_a_variable_that_only_resembles_those_is_still_unknown(name: str, table: OptionTable) -> None:
    with pytest.raises(ConfigError, match=f"unknown environment variable {name}"):
        read_environment({name: "8000"}, table)
