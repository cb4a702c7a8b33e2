"""Chat messages as clients send them → the plain shape that chat templates expect.

    content: "text" | [{"type": "text", "text": …}, …] | null     → a string
    tool_calls: [] or null                                        → left out
    tool_calls[j].function.arguments: a JSON string               → the object it spells

`content` may be null or missing only beside tool calls of an assistant. Errors name the place:
`messages[1].content[0]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infer_api.errors import RequestError

__all__ = ["normalise_messages"]

TEXT_KEYS = {"text": "text", "refusal": "refusal"}
"""Part types that are text, and the key that holds it."""


def normalise_messages(messages: Any) -> list[dict[str, Any]]:
    """Copies of `messages` ready for a template. Raises RequestError (400) naming the first wrong place."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise RequestError(f"messages must be a list, found {_kind(messages)}", param="messages")
    if not messages:
        raise RequestError("messages is empty; send at least one message", param="messages")
    return [_message(message, f"messages[{at}]") for at, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise RequestError(f"{where} must be an object with role and content, found {_kind(message)}", param=where)
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise RequestError(f"{where}.role must be a string such as 'user', found {role!r}", param=f"{where}.role")
    plain = {str(key): value for key, value in message.items() if value is not None}
    calls = plain.pop("tool_calls", None)
    if calls:
        plain["tool_calls"] = _tool_calls(calls, f"{where}.tool_calls")
    may_be_null = role == "assistant" and bool(calls or plain.get("function_call"))
    plain["content"] = _content(message.get("content"), f"{where}.content", may_be_null=may_be_null)
    return plain


def _content(content: Any, where: str, *, may_be_null: bool) -> str:
    if isinstance(content, str):
        return content
    if content is None and may_be_null:
        return ""
    if isinstance(content, Sequence) and not isinstance(content, bytes):
        return "".join(_part(part, f"{where}[{at}]") for at, part in enumerate(content))
    hint = "; it may be null only for an assistant with tool_calls" if content is None else ""
    raise RequestError(f"{where} must be a string or a list of parts, found {_kind(content)}{hint}", param=where)


def _part(part: Any, where: str) -> str:
    if not isinstance(part, Mapping):
        raise RequestError(f"{where} must be an object with a type, found {_kind(part)}", param=where)
    kind = part.get("type")
    key = TEXT_KEYS.get(kind) if isinstance(kind, str) else None
    if key is None:
        raise RequestError(f"{where} has type {kind!r}; this model reads parts of type 'text' only", param=where)
    text = part.get(key)
    if not isinstance(text, str):
        raise RequestError(f"{where}.{key} must be a string, found {_kind(text)}", param=where)
    return text


def _tool_calls(calls: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(calls, Sequence) or isinstance(calls, str | bytes):
        raise RequestError(f"{where} must be a list, found {_kind(calls)}", param=where)
    return [_tool_call(call, f"{where}[{at}]") for at, call in enumerate(calls)]


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError(f"{where} must hold a function with a name", param=where)
    arguments = _arguments(function.get("arguments"), f"{where}.function.arguments")
    return {**call, "function": {**function, "arguments": arguments}}


def _arguments(arguments: Any, where: str) -> dict[str, Any]:
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"{where} is not valid JSON: {error}", param=where) from None
    if arguments is None or arguments == "" or (isinstance(arguments, str) and not arguments.strip()):
        return {}
    if not isinstance(arguments, Mapping):
        raise RequestError(f"{where} must spell a JSON object, found {_kind(arguments)}", param=where)
    return dict(arguments)


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an object" if isinstance(value, Mapping) else "a list")
