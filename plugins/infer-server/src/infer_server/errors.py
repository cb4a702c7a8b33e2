"""The one table from errors to HTTP replies, all in OpenAI's shape: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from infer_api.errors import EngineDeadError, RequestError

__all__ = ["Failure", "add_error_handlers", "describe", "error_response", "field_path"]

_log = logging.getLogger(__name__)

_MAX_SHOWN_CHARS = 80


@dataclass(frozen=True)
class Failure:
    """What a client is told about an error."""

    status: int
    message: str
    code: str
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def _request_error(error: RequestError) -> Failure:
    wait_s = error.retry_after_s
    headers = {} if wait_s is None else {"Retry-After": str(max(1, math.ceil(wait_s)))}
    return Failure(error.status, error.message, error.code, error.param, headers)


def _engine_dead(error: EngineDeadError) -> Failure:
    return Failure(503, str(error) or "the engine has stopped", "engine_dead")


def _invalid_fields(error: RequestValidationError) -> Failure:
    errors = error.errors()
    first = errors[0]
    path = field_path(first["loc"])
    if not path:
        is_empty = first["type"] == "missing"
        message = "the body is empty: send a JSON object" if is_empty else "the body must be a JSON object"
        return Failure(400, message, "invalid_body")
    if first["type"] == "missing":
        return Failure(400, f"{path} is required", "missing_field", path)
    more = f" ({len(errors) - 1} more fields are wrong)" if len(errors) > 1 else ""
    found = _shown(first.get("input"))
    return Failure(400, f"{path}: {first['msg']}, found {found}{more}", "invalid_type", path)


def _http_error(error: HTTPException) -> Failure:
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    return Failure(error.status_code, str(error.detail), code, headers=error.headers or {})


_TABLE: tuple[tuple[type[Exception], Callable[[Any], Failure]], ...] = (
    (RequestError, _request_error),
    (EngineDeadError, _engine_dead),
    (RequestValidationError, _invalid_fields),
    (HTTPException, _http_error),
)


def describe(error: Exception) -> Failure:
    """What to answer for `error`. An error that is not in the table is ours: 500, without its message."""
    for kind, to_failure in _TABLE:
        if isinstance(error, kind):
            return to_failure(error)
    return Failure(500, "the server failed on this request; its log says more under the request id", "internal_error")


def error_response(failure: Failure) -> Response:
    """The JSON reply for a failure. Every 503 says when to come back."""
    body = {
        "error": {
            "message": failure.message,
            "type": _type_of(failure.status),
            "param": failure.param,
            "code": failure.code,
        }
    }
    # ASCII escapes: whatever a client managed to put into a message can be encoded.
    content = json.dumps(body, ensure_ascii=True).encode("ascii")
    headers = {**({"Retry-After": "1"} if failure.status == 503 else {}), **failure.headers}
    return Response(content, failure.status, headers, media_type="application/json")


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error of the table, and everything else with 500 and the request's id."""

    async def known(request: Request, error: Exception) -> Response:
        failure = describe(error)
        if isinstance(error, HTTPException) and failure.status in (404, 405):
            verb = "no route" if failure.status == 404 else "the method is not allowed:"
            failure = Failure(
                failure.status, f"{verb} {request.method} {request.url.path}", failure.code, headers=failure.headers
            )
        return error_response(failure)

    async def unexpected(request: Request, error: Exception) -> Response:
        request_id = request.scope.get("state", {}).get("request_id", "")
        extra = {"request_id": request_id}
        _log.error("request %s failed: %s: %s", request_id, type(error).__name__, error, extra=extra)
        response = error_response(describe(error))
        # This handler runs outside of the middleware that echoes the id.
        response.headers["X-Request-Id"] = request_id
        return response

    for kind, _ in _TABLE:
        app.add_exception_handler(kind, known)
    app.add_exception_handler(Exception, unexpected)


def field_path(location: Sequence[int | str]) -> str:
    """A pydantic location as a path: ("body", "messages", 0, "role") → "messages[0].role"."""
    path = ""
    for part in location[1:]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _type_of(status: int) -> str:
    named = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return named.get(status, "server_error" if status >= 500 else "invalid_request_error")


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…"
