from __future__ import annotations

import re

import pytest

from infer.cli.commands import get_command
from infer.cli.help import help_text
from infer.plugins.discovery import PluginIndex
from infer_api.errors import ConfigError


def page(index: PluginIndex, topic: str = "", command: str = "probe", width: int = 100) -> str:
    return help_text(get_command(command, index), topic, index, width)


def test_the_short_page_shows_arguments_own_flags_common_flags_and_groups(index: PluginIndex) -> None:
    text = page(index)
    assert "usage: infer probe fast|slow [MODEL] [flags]" in text
    assert "  --num-rounds INT" in text
    assert "--loud, --no-loud" in text
    assert "--max-model-len INT" in text
    assert "--config TEXT" in text
    assert re.search(r"^  Attention +The attention backend\.$", text, re.MULTILINE)
    assert "--help=GROUP" in text.splitlines()[-1] or "--help=GROUP" in text.splitlines()[-2]
    assert "--server.max-n" not in text, "only what is common belongs here"


@pytest.mark.parametrize("topic", ["Attention", "attention", "ATTENTION"])
def test_a_group_shows_its_options_the_installed_plugins_and_theirs(topic: str, index: PluginIndex) -> None:
    text = page(index, topic)
    assert "--attention-backend, --attention.name TEXT" in text
    assert "One of: auto, moon, wave." in text
    assert "default auto, env INFER_ATTENTION__NAME, YAML attention.name" in text
    assert "wave (acme-wave 1.0, priority 10): Waves." in text
    assert "supports: devices any; dtypes float32; head sizes multiple of 8" in text
    assert "--attention.wave.num-splits INT" in text
    assert "default 4, env INFER_ATTENTION__WAVE__NUM_SPLITS, YAML attention.wave.num_splits" in text
    assert "moon (acme-moon 1.0, priority 0) [failed]: Moonlight." in text
    assert "cannot be used: it needs a moon" in text
    assert "--server" not in text


def test_all_shows_every_group(index: PluginIndex) -> None:
    text = page(index, "all")
    for word in ("--server.max-n INT", "--cache.block-tokens", "--attention.wave.num-splits", "--plugins.prefer MAP"):
        assert word in text


def test_a_word_finds_options_and_plugins_that_mention_it(index: PluginIndex) -> None:
    text = page(index, "tokens")
    assert "--max-num-batched-tokens" in text
    assert "--cache.block-tokens" in text
    assert "--server.port" not in text
    assert "wave (acme-wave" in page(index, "splits")
    assert "--num-rounds" in page(index, "often"), "the command's own flags are searched"


def test_a_word_that_nothing_mentions_is_refused_with_near_groups(index: PluginIndex) -> None:
    with pytest.raises(ConfigError, match=r"nothing on 'attenton'. Did you mean 'attention'\?"):
        page(index, "attenton")


def test_a_command_without_configuration_has_one_page(index: PluginIndex) -> None:
    assert "groups" not in page(index, command="plugins")
    with pytest.raises(ConfigError, match="infer plugins takes no configuration"):
        page(index, "Attention", command="plugins")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_terminal(width: int, index: PluginIndex) -> None:
    for topic in ("", "all", "Attention"):
        long = [line for line in page(index, topic, width=width).splitlines() if len(line) > width]
        # A flag or a variable is never broken in two.
        assert all(" " not in line.strip() or width == 40 for line in long), long
