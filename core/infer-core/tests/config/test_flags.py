from __future__ import annotations

import pytest

from infer.config.flags import flag_map, parse_words
from infer.config.schema import Option
from infer.config.table import OptionTable
from infer_api.errors import ConfigError


def values(words: list[str], table: OptionTable) -> dict[str, object]:
    return {one.option.path: one.value for one in parse_words(words, table.by_flag)[1]}


def test_a_value_follows_its_flag_or_an_equals_sign(table: OptionTable) -> None:
    assert values(["--port", "9000", "--host=::1"], table) == {"server.port": 9000, "server.host": "::1"}


def test_every_spelling_means_the_same_option(table: OptionTable) -> None:
    for flag in ("--block-size", "--cache.block-tokens", "--cache.block_tokens", "--block_size"):
        assert values([flag, "32"], table) == {"cache.block_tokens": 32}


def test_a_yes_or_no_option_of_a_plugin_takes_no_value(table: OptionTable) -> None:
    assert values(["--attention.wave.fused"], table) == {"attention.wave.fused": True}
    assert values(["--no-attention.wave.fused"], table) == {"attention.wave.fused": False}
    assert values(["--attention.wave.fused=no"], table) == {"attention.wave.fused": False}


@pytest.mark.parametrize(
    ("path", "flags"),
    [
        ("cache.prefix_caching", ("enable-prefix-caching", "cache.prefix-caching", "enable_prefix_caching")),
        ("server.docs", ("docs", "server.docs")),
    ],
)
def test_a_yes_or_no_option_has_a_no_of_each_spelling(path: str, flags: tuple[str, ...], table: OptionTable) -> None:
    for flag in flags:
        assert values([f"--{flag}"], table) == {path: True}
        assert values([f"--no-{flag}"], table) == {path: False}
        assert values([f"--{flag}=false"], table) == {path: False}
    assert values(["--docs", "--no-server.docs"], table) == {"server.docs": False}


def test_words_without_dashes_are_positionals_and_a_double_dash_ends_flags(table: OptionTable) -> None:
    positionals, given = parse_words(["a", "--port", "1", "b", "--", "--port"], table.by_flag)
    assert positionals == ["a", "b", "--port"]
    assert [(one.option.path, one.source) for one in given] == [("server.port", "--port")]


def test_lists_join_and_of_other_repeated_flags_the_last_counts(table: OptionTable) -> None:
    found = values(["--api-key", "a,b", "--api-key", "c", "--port", "1", "--port", "2"], table)
    assert found == {"server.api_keys": ["a", "b", "c"], "server.port": 2}


def test_maps_join(table: OptionTable) -> None:
    found = values(["--plugins.prefer", "attention:x=one", "--plugins.prefer", "attention:y=two"], table)
    assert found == {"plugins.prefer": {"attention:x": "one", "attention:y": "two"}}


def test_negative_numbers_are_values() -> None:
    flags = flag_map([Option(path="bias", type={"type": "number"})])
    assert parse_words(["--bias", "-1.5"], flags)[1][0].value == -1.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-model-length", "5"], "unknown flag --max-model-length. Did you mean '--max-model-len'"),
        (["--attention.wave.num-split", "5"], "Did you mean '--attention.wave.num-splits'"),
        (["-z"], "unknown flag -z. --help lists them"),
        (["--hepl"], "Did you mean '--help'"),
        (["--port"], "--port needs a value: --port PORT"),
        (["--port", "--host", "x"], "--port needs a value"),
        (["--port", "many"], "--port must be int, found 'many'"),
        (
            ["--attention.wave.mode", "fats"],
            "--attention.wave.mode must be fast | exact, found 'fats'. Did you mean 'fast'?",
        ),
        (["--no-attention.wave.fused=1"], "--no-attention.wave.fused takes no value"),
    ],
)
def test_wrong_words_are_refused_with_what_to_type(words: list[str], message: str, table: OptionTable) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_words(words, table.by_flag)
    assert message in str(caught.value)
