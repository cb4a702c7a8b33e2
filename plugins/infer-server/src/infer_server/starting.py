"""What is answered while the model loads: the process lives, but is not ready."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from infer_server.errors import Failure, error_response

__all__ = ["StartingApp"]

_LOADING = "the model is still loading"


class StartingApp:
    """An ASGI app that hands over to the real one as soon as `become` is called."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None

    @property
    def is_ready(self) -> bool:
        return self._app is not None

    def become(self, app: ASGIApp) -> None:
        """Let `app` answer from the next request on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is not None:
            # What outlasts the time to end is cancelled; the app has answered then, and no traceback is needed.
            with contextlib.suppress(asyncio.CancelledError):
                await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _reply_while_loading(scope["path"])(scope, receive, send)


def _reply_while_loading(path: str) -> Response:
    if path == "/health":
        return JSONResponse({"status": "ok"})
    if path == "/ready":
        return JSONResponse({"ready": False, "reason": _LOADING}, 503, {"Retry-After": "1"})
    return error_response(Failure(503, _LOADING, "model_loading"))
