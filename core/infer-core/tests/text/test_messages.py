from __future__ import annotations

import pytest

from infer.text.messages import normalise_messages
from infer_api.errors import RequestError

PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_parts_are_the_joined_string_for_every_role(role) -> None:
    """B49."""
    assert normalise_messages([{"role": role, "content": PARTS}]) == [{"role": role, "content": "ab"}]
    assert normalise_messages([{"role": role, "content": "ab"}]) == [{"role": role, "content": "ab"}]
    assert normalise_messages([{"role": role, "content": []}]) == [{"role": role, "content": ""}]


@pytest.mark.parametrize("role", ["system", "user", "tool", "assistant"])
@pytest.mark.parametrize("message", [{}, {"content": None}, {"content": None, "tool_calls": []}])
def test_null_and_missing_content_are_refused_without_calls(role, message) -> None:
    with pytest.raises(RequestError, match="found null") as caught:
        normalise_messages([{"role": role, **message}])
    assert (caught.value.param, caught.value.status) == ("messages[0].content", 400)


def test_an_assistant_with_calls_may_have_null_content_and_gets_arguments_as_an_object() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": [1, 2]}'}}
    (message,) = normalise_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert message["content"] == ""
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": [1, 2]}}
    assert call["function"]["arguments"] == '{"x": [1, 2]}', "the client's own object is left alone"


@pytest.mark.parametrize("arguments", ["", "  ", None, {}, "{}"])
def test_empty_arguments_are_an_empty_object(arguments) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}
    (message,) = normalise_messages([{"role": "assistant", "tool_calls": [call]}])
    assert message["tool_calls"][0]["function"]["arguments"] == {}


@pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', 5, "[" * 100_000])
def test_arguments_that_are_no_object_are_refused_with_their_place(arguments) -> None:
    call = {"function": {"name": "f", "arguments": arguments}}
    with pytest.raises(RequestError) as caught:
        normalise_messages([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}])
    assert caught.value.param == "messages[1].tool_calls[0].function.arguments"


def test_empty_tool_calls_and_null_keys_are_dropped() -> None:
    message = {"role": "assistant", "content": "x", "tool_calls": [], "name": None, "reasoning_content": "r"}
    assert normalise_messages([message]) == [{"role": "assistant", "content": "x", "reasoning_content": "r"}]


@pytest.mark.parametrize(
    ("content", "param"),
    [
        ([{"type": "image_url", "image_url": {"url": "x"}}], "messages[1].content[0]"),
        ([PARTS[0], {"type": "text"}], "messages[1].content[1]"),
        (["plain"], "messages[1].content[0]"),
        ([{"type": ["text"]}], "messages[1].content[0]"),
        (5, "messages[1].content"),
        ({"type": "text", "text": "a"}, "messages[1].content"),
    ],
)
def test_a_bad_part_is_refused_with_its_index(content, param) -> None:
    with pytest.raises(RequestError) as caught:
        normalise_messages([{"role": "user", "content": "x"}, {"role": "user", "content": content}])
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


@pytest.mark.parametrize(
    ("messages", "param"),
    [([], "messages"), ("hi", "messages"), (["hi"], "messages[0]"), ([{"content": "x"}], "messages[0].role")],
)
def test_messages_of_the_wrong_shape_are_refused(messages, param) -> None:
    with pytest.raises(RequestError) as caught:
        normalise_messages(messages)
    assert caught.value.param == param
