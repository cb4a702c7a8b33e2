"""How many requests are worked on, and whether new ones are let in."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from infer_server.errors import Failure, error_response

__all__ = ["FREE_PATHS", "Gate", "GateMiddleware"]

FREE_PATHS = frozenset({"/health", "/ready", "/metrics"})
"""What tells about the server is answered however busy it is, and while it ends."""


class Gate:
    """Lets in up to `max_requests` at once, and none after `close`."""

    def __init__(self, max_requests: int) -> None:
        self.max_requests = max_requests
        self.closed_because = ""
        self._num_active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def close(self, reason: str) -> None:
        """Refuse new requests from now on; those that are inside go on."""
        self.closed_because = reason

    async def wait_until_idle(self) -> None:
        """Until no request is inside."""
        await self._idle.wait()

    def refusal(self) -> Failure | None:
        """Why a new request is not let in now, or None."""
        if self.closed_because:
            headers = {"Connection": "close"}
            return Failure(503, f"the server is {self.closed_because}", "server_stopping", headers=headers)
        if self._num_active >= self.max_requests:
            most = f"{self.max_requests} requests are being worked on, the most at once (server.max_requests)"
            return Failure(503, f"{most}; try again later", "too_many_requests")
        return None

    def __enter__(self) -> None:
        self._num_active += 1
        self._idle.clear()

    def __exit__(self, *error: object) -> None:
        self._num_active -= 1
        if not self._num_active:
            self._idle.set()


class GateMiddleware:
    """Answers 503 for what the gate does not let in."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE_PATHS:
            await self._app(scope, receive, send)
            return
        refusal = self._gate.refusal()
        if refusal is not None:
            await error_response(refusal)(scope, receive, send)
            return
        with self._gate:
            await self._app(scope, receive, send)
