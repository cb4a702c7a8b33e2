from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from infer.config.sections import InferConfig
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.pluginset import PinnedPlugin, PluginSet
from infer.service.assemble import generation_defaults, open_services
from infer_api.errors import ConfigError, ModelError, PluginError, RequestError
from infer_api.hooks import hookimpl
from infer_api.requests import SamplingParams
from infer_api.tokenizers import TokenizerSource
from infer_tokenizer_json.tokenizer import JsonTokenizer

INDEX = PluginIndex(
    [
        PluginRecord(
            "attention", "torch", "infer-attn-torch", "1.0", "infer_attn_torch", {"summary": "s"}, "compatible"
        ),
        PluginRecord("attention", "broken", "other", "2.0", "other", {}, "failed", "no such module"),
    ]
)
TINY = InferConfig().replace(model={"served_names": ("tiny",)})
PINNED = PluginSet((PinnedPlugin("attention", "torch", "infer-attn-torch", "1.0", "infer_attn_torch", "a:B"),))


@pytest.fixture
def started(byte_level, source_of, scripted_engine, script):
    """Makes a `start` whose engine is scripted; what it was called with is in `calls`."""

    def make(
        *scripts, vocab_size: int = 320, plugin_set: PluginSet = PINNED, has_tokenizer: bool = True, **source_fields
    ):
        source = source_of(byte_level, **{"eos_ids": (1,), **source_fields}) if has_tokenizer else None
        engine = scripted_engine(*(scripts or [script([[5]])]))

        async def start(config, index, *, inline=None, progress=None):
            start.calls.append((config, index, inline))
            return SimpleNamespace(
                client=engine,
                facts=SimpleNamespace(vocab_size=vocab_size, architecture="TinyModel"),
                tokenizer=JsonTokenizer(source) if source is not None else None,
                tokenizer_source=source,
                max_model_len=64,
                capacity_tokens=640,
                recommended={},
                plugin_set=plugin_set,
                decisions=(),
            )

        start.calls, start.engine = [], engine
        return start

    return make


async def test_services_hold_what_routes_need_and_closing_ends_the_engine(started) -> None:
    config = InferConfig().replace(model={"served_names": ("tiny", "small")}, server={"max_n": 3, "api_keys": ("k",)})
    start = started(chat_templates={"default": "{{ messages[0].content }}"})
    async with open_services(config, INDEX, start=start, inline=True) as services:
        (card,) = services.models
        assert (card.id, card.aliases, card.max_model_len, card.has_chat_template) == ("tiny", ("small",), 64, True)
        assert services.limits.max_n == 3
        assert services.guard.allows("Bearer k")
        assert not services.guard.allows(None)
        assert services.fingerprint.startswith("fp_")
        assert not start.engine.is_closed
        assert start.calls[0][2] is True
        rendered = services.renderer.chat([{"role": "user", "content": "hi"}])
        params = services.outputs.check([rendered], SamplingParams())
        reply = await services.outputs.collect(services.outputs.stream([rendered], params, request_id="r"))
        assert reply.usage.completion_tokens == 1
        assert start.engine.requests[0].eos_ids == (1,)
    assert start.engine.is_closed


async def test_the_engine_is_closed_when_serving_fails(started) -> None:
    start = started()
    with pytest.raises(ZeroDivisionError):
        async with open_services(TINY, INDEX, start=start):
            raise ZeroDivisionError
    assert start.engine.is_closed
    bad = started(chat_templates={"default": "{% if %}"})
    with pytest.raises(ModelError, match="line 1"):
        async with open_services(TINY, INDEX, start=bad):
            pass
    assert bad.engine.is_closed


async def test_the_vocabulary_is_the_smaller_of_tokenizer_and_output_layer(started, byte_level) -> None:
    """B74."""
    size = byte_level.get_vocab_size()
    for width, expected in ((size + 20, size), (size - 2, size - 2)):
        async with open_services(TINY, INDEX, start=started(vocab_size=width)) as services:
            assert services.models[0].vocab_size == expected


async def test_names_come_from_the_models_name(started, tmp_path) -> None:
    source = PluginRecord(
        "model_sources", "shop", "acme", "1.0", "acme", {"supports": {"prefix": "shop:", "pattern": ".+"}}, "compatible"
    )
    index = PluginIndex([*INDEX.records(), source])
    for name, expected in ((str(tmp_path), tmp_path.name), ("shop:some-model", "some-model")):
        config = InferConfig().replace(model={"name": name})
        async with open_services(config, index, start=started()) as services:
            assert services.models[0].id == expected


async def test_a_model_without_a_template_is_told_of_at_start(started, caplog) -> None:
    """B50."""
    with caplog.at_level(logging.WARNING):
        async with open_services(TINY, INDEX, start=started()) as services:
            assert not services.models[0].has_chat_template
    assert "--chat-template" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        config = TINY.replace(model={"chat_template": "{{ messages }}"})
        async with open_services(config, INDEX, start=started()) as services:
            assert services.models[0].has_chat_template
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("group", "fields"),
    [("server", {"api_key_file": "/no/such/file"}), ("model", {"chat_template": "/no/such/file"})],
)
async def test_a_wrong_option_is_found_before_the_model_is_loaded(started, group, fields) -> None:
    start = started()
    with pytest.raises(ConfigError, match="/no/such/file"):
        async with open_services(InferConfig().replace(**{group: fields}), INDEX, start=start):
            pass
    assert start.calls == []


async def test_recommended_sampling_is_on_the_card_and_said_at_start(started, caplog) -> None:
    """B73."""
    with caplog.at_level(logging.INFO):
        start = started(generation={"temperature": 0.6, "top_k": 20, "eos_token_id": [1]})
        async with open_services(TINY, INDEX, start=start) as services:
            assert services.models[0].defaults == {"temperature": 0.6, "top_k": 20}
    assert "temperature 0.6, top_k 20" in caplog.text


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        ({}, {}),
        ({"temperature": 0.6, "top_k": 20, "do_sample": False}, {}),
        ({"temperature": 0.6, "do_sample": True, "top_p": None}, {"temperature": 0.6}),
        ({"min_p": 0.1, "repetition_penalty": 1.05, "num_beams": 2}, {"min_p": 0.1, "repetition_penalty": 1.05}),
    ],
)
def test_a_checkpoint_recommends_what_sampling_knows_and_a_greedy_one_nothing(generation, expected) -> None:
    assert generation_defaults(TokenizerSource("tokenizer.json", "{}", "x", generation=generation)) == expected


def test_a_recommended_value_that_is_no_number_is_named() -> None:
    source = TokenizerSource("tokenizer.json", "{}", "folder", generation={"temperature": "warm"})
    with pytest.raises(ModelError, match=r"folder: .*generation_config.json.*temperature .* found 'warm'"):
        generation_defaults(source)


async def test_plugins_are_listed_with_their_state_and_the_fingerprint_follows_the_set(started) -> None:
    async with open_services(TINY, INDEX, start=started()) as services:
        assert [(one["name"], one["state"]) for one in services.plugins] == [
            ("broken", "failed"),
            ("torch", "selected"),
        ]
        first = services.fingerprint
    async with open_services(TINY, INDEX, start=started(plugin_set=PluginSet())) as services:
        assert services.fingerprint != first


async def test_a_model_without_a_tokenizer_serves_ids(started, caplog) -> None:
    async with open_services(TINY, INDEX, start=started(has_tokenizer=False)) as services:
        assert services.models[0].vocab_size == 320
        assert services.renderer.text([319]).prompt_ids == (319,)
    assert "no tokenizer" in caplog.text


@pytest.mark.parametrize("values", [{"temperature": -1}, {"top_p": 5}, {"top_k": 1.5}, {"top_k": True}])
def test_a_recommended_value_that_no_request_may_have_is_named_at_the_start(values) -> None:
    source = TokenizerSource("tokenizer.json", "{}", "folder", generation=values)
    with pytest.raises(ModelError, match=f"folder: .*generation_config.json.*{next(iter(values))} must be"):
        generation_defaults(source)


def test_a_recommended_count_may_be_written_as_a_float() -> None:
    source = TokenizerSource("tokenizer.json", "{}", "folder", generation={"top_k": 50.0})
    assert isinstance(generation_defaults(source)["top_k"], int)


async def test_the_renderer_knows_the_length_of_the_context(started) -> None:
    async with open_services(TINY, INDEX, start=started()) as services:
        with pytest.raises(RequestError, match="cannot fit"):
            services.renderer.text("a" * (12 * 64 + 1))


def test_an_alias_recommends_what_the_checkpoint_leaves_open(byte_level, source_of) -> None:
    source = source_of(byte_level, generation={"top_p": 0.5})
    assert generation_defaults(source, {"temperature": 0.2, "top_p": 0.9}) == {"temperature": 0.2, "top_p": 0.5}
    assert generation_defaults(source_of(byte_level), {"temperature": 0.2}) == {"temperature": 0.2}


class Watcher:
    """Hooks of a routes plugin, added once it has its services."""

    def __init__(self) -> None:
        self.heard: list[tuple] = []

    @hookimpl
    def infer_request_finished(self, finish_reason, record) -> None:
        self.heard.append((finish_reason, record.num_generated_tokens))

    @hookimpl
    def infer_response_sent(self, route, status) -> None:
        self.heard.append((route, status))


async def test_hooks_that_are_added_later_hear_of_requests_and_answers(started) -> None:
    watcher = Watcher()
    async with open_services(TINY, INDEX, start=started()) as services:
        services.add_hooks(watcher, "acme-metrics")
        rendered = services.renderer.text("a")
        params = services.outputs.check([rendered], SamplingParams())
        await services.outputs.collect(services.outputs.stream([rendered], params, request_id="r"))
        services.tell("infer_response_sent", method="GET", route="/health", status=200, duration_s=0.1)
        with pytest.raises(PluginError, match="acme-metrics"):
            services.add_hooks(watcher, "acme-metrics")
    assert watcher.heard == [("length", 1), ("/health", 200)]


async def test_limits_are_those_of_the_configuration(started) -> None:
    config = TINY.replace(server={"max_bad_words": 7, "max_json_depth": 9})
    async with open_services(config, INDEX, start=started()) as services:
        assert (services.limits.max_bad_words, services.limits.max_json_depth) == (7, 9)
