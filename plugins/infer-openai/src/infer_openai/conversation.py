"""Messages and tools of a chat: roles and tool choices. Contents are the renderer's to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infer_api.errors import RequestError

__all__ = ["ROLES", "read_messages", "read_tools"]

ROLES = ("system", "developer", "user", "assistant", "tool")


def read_messages(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages with a known role. "developer" is a newer name of "system", which chat templates know."""
    return [_message(message, f"messages[{at}].role") for at, message in enumerate(messages)]


def _message(message: dict[str, Any], path: str) -> dict[str, Any]:
    role = message.get("role")
    if role not in ROLES:
        found = "it is missing" if role is None else f"found {str(role)[:40]!r}"
        raise RequestError(f"{path} must be one of {', '.join(ROLES)}; {found}", param=path)
    return {**message, "role": "system"} if role == "developer" else message


def read_tools(tools: Sequence[dict[str, Any]] | None, choice: Any) -> list[dict[str, Any]]:
    """The tools that the chat template gets: all of them, or none for the choice "none".

    Raises RequestError for a choice that would need the reply to be a tool call: nothing here can promise that.
    """
    if choice not in (None, "none", "auto"):
        raise RequestError(
            'tool_choice must be "none" or "auto": a call cannot be enforced here',
            param="tool_choice",
            code="unsupported_parameter",
        )
    checked = [_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools or ())]
    return [] if choice == "none" else checked


def _tool(tool: dict[str, Any], path: str) -> dict[str, Any]:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        raise RequestError(
            f'{path} must be {{"type": "function", "function": {{"name": …}}}}', param=path, code="invalid_type"
        )
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise RequestError(f"{path}.function.name must be a string", param=f"{path}.function.name", code="invalid_type")
    return tool
