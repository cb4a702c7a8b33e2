"""The OpenAPI schema, completed by what the server does in front of every route: keys, limits, errors."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from infer_server.auth import OPEN_PATHS
from infer_server.gate import FREE_PATHS

__all__ = ["DescribedApp"]

_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
_TEXT_OR_NONE = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_ERROR: dict[str, Any] = {
    "title": "Error",
    "description": "What every refused or failed request is answered with.",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": _TEXT_OR_NONE,
                "code": {"type": "string"},
            },
        }
    },
}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}}


class DescribedApp(FastAPI):
    """A FastAPI app whose schema says what keys are needed, and which errors there are."""

    needs_key = False

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            schema = super().openapi()
            _complete(schema, needs_key=self.needs_key)
        assert self.openapi_schema is not None
        return self.openapi_schema


def _complete(schema: dict[str, Any], *, needs_key: bool) -> None:
    parts = schema.setdefault("components", {})
    kinds = parts.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        kinds.pop(name, None)  # fields that are wrong are answered like every other error
    kinds["Error"] = _ERROR
    if needs_key:
        parts["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
        }
    for path, item in schema["paths"].items():
        for method in _METHODS:
            if method in item:
                _complete_operation(item[method], path, needs_key=needs_key)


def _complete_operation(operation: dict[str, Any], path: str, *, needs_key: bool) -> None:
    replies = operation.setdefault("responses", {})
    replies.pop("422", None)
    if path in FREE_PATHS:
        replies.setdefault("default", _reply("Refused or failed"))
    else:
        replies.setdefault("503", {**_reply("Too busy, stopping, or the engine has stopped"), "headers": _RETRY_AFTER})
        replies.setdefault("default", _reply("Refused or failed; `code` says why, `param` names the field"))
    if needs_key and path not in OPEN_PATHS:
        replies.setdefault("401", _reply("An API key is needed"))
        operation["security"] = [{"bearer": []}, {"header": []}]


def _reply(description: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": description, "content": content}
