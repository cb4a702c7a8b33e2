"""Request bodies: bounded, uncompressed JSON. A route sees a body only after all of it has passed."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infer_api.errors import RequestError
from infer_server.errors import Failure, describe, error_response
from infer_server.json_check import check_json

__all__ = ["BodyMiddleware"]

_LONG_BYTES = 32 * 1024
"""From here on a check may take so long that others should be answered meanwhile."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class BodyMiddleware:
    """Reads the body up to `max_bytes` within `timeout_s`, checks it and replays it to the app.

    Refuses with 408 what is late, with 413 what is too large, with 415 what is compressed or not declared as JSON,
    with 400 what is no JSON or nested deeper than `max_depth`. An empty body passes: whether one is needed is the
    route's business.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, max_depth: int, timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._checked_body(Headers(scope=scope), receive)
        except RequestError as error:
            await error_response(describe(error))(scope, receive, send)
        except TimeoutError:
            await error_response(self._late())(scope, receive, send)
        except ClientDisconnect:
            return
        else:
            await self._app(scope, _replay(body, receive), send)

    async def _checked_body(self, headers: Headers, receive: Receive) -> bytes:
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise RequestError(
                "compressed bodies are not accepted: send it without Content-Encoding",
                code="unsupported_encoding",
                status=415,
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_bytes:
            raise self._too_large()
        async with asyncio.timeout(self._timeout_s):
            body = await self._read(receive)
        if body:
            _check_type(headers.get("content-type"))
            if len(body) < _LONG_BYTES:
                check_json(body, self._max_depth)
            else:
                await asyncio.to_thread(check_json, body, self._max_depth)
        return body

    async def _read(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        num_bytes = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            num_bytes += len(parts[-1])
            if num_bytes > self._max_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(parts)

    def _late(self) -> Failure:
        most = f"{self._timeout_s:g} s (server.body_timeout_s)"
        # The rest of the body may be on its way: what comes next on this connection is no request.
        return Failure(408, f"the body did not arrive within {most}", "body_timeout", headers={"Connection": "close"})

    def _too_large(self) -> RequestError:
        return RequestError(
            f"the body is larger than {self._max_bytes} bytes (server.max_body_bytes)",
            code="body_too_large",
            status=413,
        )


def _check_type(content_type: str | None) -> None:
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return
    found = f"found {kind!r}" if kind else "found none"
    raise RequestError(
        f"the body must be sent as 'Content-Type: application/json', {found}", code="unsupported_media_type", status=415
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        # After the body only the client's departure can come; the server reports it.
        return pending.pop() if pending else await receive()

    return replayed
