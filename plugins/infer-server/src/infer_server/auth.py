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
    "a valid API key is needed: send the header 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'",
    "invalid_api_key",
    headers={"WWW-Authenticate": "Bearer"},
)


class AuthMiddleware:
    """Answers 401 before anything of the request is read."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._allows(Headers(scope=scope)):
            await self._app(scope, receive, send)
        else:
            await error_response(_REFUSED)(scope, receive, send)

    def _allows(self, headers: Headers) -> bool:
        key = headers.get("x-api-key")  # some clients send both, and one of the two empty or a dummy
        return self._guard.allows(headers.get("authorization")) or (
            key is not None and self._guard.allows(f"Bearer {key}")
        )
