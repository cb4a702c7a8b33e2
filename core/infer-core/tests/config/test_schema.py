from __future__ import annotations

import pytest

from infer.config.schema import option_flag, plugin_options, read_schema


def test_an_option_has_a_flag_an_environment_name_and_a_path() -> None:
    option = read_schema().by_path["cache.block_tokens"]
    assert option.all_flags == ("--block-size", "--cache.block-tokens")
    assert option.all_env == ("INFER_CACHE__BLOCK_TOKENS",)
    assert (option.default, option.doc) == (16, "Tokens held by one KV block.")


def test_flags_and_environment_names_mean_one_option_each() -> None:
    options = list(read_schema().options())
    for names in ([flag for one in options for flag in one.all_flags], [env for one in options for env in one.all_env]):
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("flag", "path"),
    [
        ("--max-model-len", "model.max_model_len"),
        ("--max-num-seqs", "scheduler.max_num_seqs"),
        ("--max-num-batched-tokens", "scheduler.max_num_batched_tokens"),
        ("--kv-cache-memory", "cache.kv_cache_memory"),
        ("--kv-cache-memory-bytes", "cache.kv_cache_memory"),
        ("--gpu-memory-utilization", "cache.memory_fraction"),
        ("--block-size", "cache.block_tokens"),
        ("--dtype", "model.dtype"),
        ("--seed", "model.seed"),
        ("--served-model-name", "model.served_names"),
        ("--tokenizer", "model.tokenizer"),
        ("--chat-template", "model.chat_template"),
        ("--host", "server.host"),
        ("--port", "server.port"),
        ("--api-key", "server.api_keys"),
        ("--attention-backend", "attention.name"),
        ("--quantization", "quantization.name"),
        ("--platform", "platform.name"),
        ("--load-format", "load.name"),
        ("--executor", "executor.name"),
    ],
)
def test_flags_that_people_know_mean_what_they_expect(flag: str, path: str) -> None:
    assert flag in read_schema().by_path[path].flags


def test_groups_of_plugin_kinds_are_found_by_kind() -> None:
    group = read_schema().find_kind("quantization")
    assert group is not None
    assert group.name == "quantization"
    assert read_schema().find_kind("nonsense") is None


def test_plugin_options_come_from_the_json_schema_of_their_class() -> None:
    (one,) = plugin_options("attention.my-wave", {"properties": {"num_splits": {"type": "integer", "default": 3}}})
    assert (one.path, one.default) == ("attention.my-wave.num_splits", 3)
    assert one.all_flags == ("--attention.my-wave.num-splits",)
    assert one.all_env == ("INFER_ATTENTION__MY_WAVE__NUM_SPLITS",)
    assert plugin_options("x", None) == ()


def test_the_flag_of_a_path_has_dashes() -> None:
    assert option_flag("cache.block_tokens") == "--cache.block-tokens"
