from __future__ import annotations

import pickle

import pytest

from infer.config.sections import InferConfig
from infer_api.errors import ConfigError


def test_sizes_may_be_text_or_a_number() -> None:
    config = InferConfig()
    assert config.replace(cache={"kv_cache_memory": "2GiB"}).cache.kv_cache_memory == 2**31
    assert config.replace(cache={"kv_cache_memory": 4096}).cache.kv_cache_memory == 4096


def test_replace_keeps_everything_else() -> None:
    config = InferConfig().replace(server={"port": 9000}).replace(model={"seed": 7})
    assert (config.server.port, config.model.seed, config.cache.block_tokens) == (9000, 7, 16)


@pytest.mark.parametrize(
    ("group", "fields", "words"),
    [
        ("server", {"port": 70000}, "server.port: .*65535.*found 70000"),
        ("cache", {"block_tokens": 10}, "cache.block_tokens: .*multiple of 8.*found 10"),
        ("cache", {"kv_cache_memory": "much"}, "cache.kv_cache_memory.*'much' is no size"),
        ("cache", {"kv_cache_memory": 0}, "cache.kv_cache_memory"),
        ("cache", {"memory_fraction": 1.5}, "cache.memory_fraction"),
        ("cache", {"bloc_tokens": 16}, "cache.bloc_tokens"),
        ("model", {"dtype": "int3"}, "model.dtype: .*'float32'.*found 'int3'"),
        ("kache", {"x": 1}, "kache"),
    ],
)
def test_replace_validates_and_names_the_path(group: str, fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        InferConfig().replace(**{group: fields})
    assert "\n" not in str(caught.value)


def test_a_configuration_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        InferConfig().server.port = 1  # type: ignore[misc]


def test_plain_data_makes_the_same_configuration_again() -> None:
    config = InferConfig().replace(
        plugin_options={"attention": {"wave": {"num_splits": 2}}}, cache={"block_tokens": 32}
    )
    assert InferConfig.validated(config.model_dump(mode="json")) == config
    assert pickle.loads(pickle.dumps(config)) == config


def test_options_of_a_plugin_are_given_as_they_were_said() -> None:
    config = InferConfig().replace(plugin_options={"attention": {"wave": {"num_splits": 2}}})
    assert config.options("attention", "wave") == {"num_splits": 2}
    assert config.options("attention", "other") == {}


def test_every_group_and_option_has_a_docstring() -> None:
    for name, place in InferConfig.model_fields.items():
        section = place.annotation
        if name == "plugin_options":
            continue
        assert section.__doc__, name
        for field, info in section.model_fields.items():
            assert info.description, f"{name}.{field}"
