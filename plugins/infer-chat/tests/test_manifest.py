from __future__ import annotations

import pytest

from infer_api.manifest import CommandPlugin, write_manifest
from infer_chat.chat import ChatCommand
from infer_chat.complete import CompleteCommand
from infer_chat.manifest import CHAT, COMPLETE


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_chat", check=True)


@pytest.mark.parametrize(("plugin", "command"), [(CHAT, ChatCommand), (COMPLETE, CompleteCommand)])
def test_the_implementations_are_the_commands(plugin: CommandPlugin, command: type) -> None:
    assert plugin.implementation == f"{command.__module__}:{command.__name__}"


def test_a_conversation_is_not_mixed_with_log_lines() -> None:
    assert CHAT.supports.quiet
    assert COMPLETE.supports.quiet
