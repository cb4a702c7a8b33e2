"""API keys: every path but the health checks needs one, when the server has any."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from infer_api.services import Guard
from infer_server.errors import Failure, error_response

__all__ = ["OPEN_PATHS", "AuthMiddleware"]

OPEN_PATHS = frozenset({"/health", "/ready"})

_REFUSED = Failure(
    401,
    "a valid API key is needed: send the header 'Authorization: Bearer KEY'",
    "invalid_api_key",
    headers={"WWW-Authenticate": "Bearer"},
)


class AuthMiddleware:
    """Answers 401 before anything of the request is read."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] != "http" or scope["path"] in OPEN_PATHS
        if is_open or self._guard.allows(Headers(scope=scope).get("authorization")):
            await self._app(scope, receive, send)
        else:
            await error_response(_REFUSED)(scope, receive, send)
