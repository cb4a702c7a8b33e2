from __future__ import annotations

from typing import Any

import pytest

from infer_api.errors import RequestError
from infer_openai.conversation import ROLES, read_messages, read_tools

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("role", ROLES)
def test_b49_contents_of_every_role_reach_the_renderer_as_they_are(role: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": role, "content": content} for content in ("ab", parts, [], None)]
    kept = "system" if role == "developer" else role
    assert read_messages(messages) == [{**message, "role": kept} for message in messages]


@pytest.mark.parametrize("role", [None, "function", "User", 3, ["user"]])
def test_an_unknown_role_is_refused_with_its_place(role: Any) -> None:
    with pytest.raises(RequestError) as caught:
        read_messages([{"role": "user", "content": "a"}, {"role": role, "content": "b"}])
    assert caught.value.param == "messages[1].role"


def test_tools_are_shown_unless_the_choice_is_none() -> None:
    assert read_tools([TOOL], None) == [TOOL]
    assert read_tools([TOOL], "auto") == [TOOL]
    assert read_tools([TOOL], "none") == []
    assert read_tools(None, None) == []


@pytest.mark.parametrize("choice", ["required", "always", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_cannot_be_demanded(choice: Any) -> None:
    with pytest.raises(RequestError) as caught:
        read_tools([TOOL], choice)
    assert caught.value.param == "tool_choice"


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "retrieval"}, "tools[1]"),
        ({"type": "function"}, "tools[1]"),
        ({"type": "function", "function": {"name": 3}}, "tools[1].function.name"),
    ],
)
def test_a_broken_tool_is_refused_with_its_place(tool: Any, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_tools([TOOL, tool], None)
    assert caught.value.param == param
