from __future__ import annotations

import os

import pytest

from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.service.options import config_from_options
from infer_api.errors import ConfigError

INDEX = PluginIndex(
    [PluginRecord("attention", "torch", "infer-attn-torch", "1", "infer_attn_torch", state="compatible")]
)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch) -> None:
    for name in [name for name in os.environ if name.startswith("INFER_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("options", "path", "value"),
    [
        ({"model": "some/model"}, "model.name", "some/model"),
        ({"max_model_len": 2048}, "model.max_model_len", 2048),
        ({"kv_cache_memory": "1GiB"}, "cache.kv_cache_memory", 2**30),
        ({"kv_cache_memory": 4096}, "cache.kv_cache_memory", 4096),
        ({"attention": "torch"}, "attention.name", "torch"),
        ({"tokenizer": "some/folder"}, "model.tokenizer", "some/folder"),
        ({"cache.block_tokens": 32}, "cache.block_tokens", 32),
        ({"gpu_memory_utilization": 0.5}, "cache.memory_fraction", 0.5),
        ({"engine_process": "inline"}, "parallel.engine_process", "inline"),
        ({"served_names": ("a", "b")}, "model.served_names", ("a", "b")),
    ],
)
def test_a_keyword_is_a_path_a_group_or_the_words_of_a_flag(options, path, value) -> None:
    group, _, field = path.partition(".")
    assert getattr(getattr(config_from_options(INDEX, options), group), field) == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_modell_len": 5}, "max_model_len"),
        ({"attention": "tritonn"}, "installed: torch"),
        ({"max_model_len": "many"}, "LLM option max_model_len"),
        ({"max_model_len": 0}, "max_model_len"),
        ({"kv_cache_memory": "1XB"}, "kv_cache_memory"),
    ],
)
def test_wrong_keywords_and_values_are_errors_that_name_them(options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from_options(INDEX, options)
