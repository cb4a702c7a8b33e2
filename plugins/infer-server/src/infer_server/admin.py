"""Routes about the server itself: liveness, readiness, version, plugins, the engine's figures, its prefix cache."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from infer_api.services import Services
from infer_server.gate import Gate

__all__ = ["admin_router"]


def admin_router(services: Services, gate: Gate) -> APIRouter:
    """`/health`, `/ready`, `/version`, `/plugins`, `/stats` and `/reset_prefix_cache`."""
    router = APIRouter(tags=["server"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> dict[str, str]:
        """Whether this process lives; says nothing of the engine."""
        return {"status": "ok"}

    @router.head("/ready", response_model=None, include_in_schema=False)
    @router.get("/ready", response_model=None, responses={503: {"description": "Not now; `reason` says why"}})
    async def ready() -> Response:
        """Whether a request would be served now: 200, or 503 with the reason."""
        if gate.closed_because:
            return _readiness(False, gate.closed_because)
        state = await services.engine.health()
        return _readiness(state.ready, state.reason)

    @router.get("/version")
    async def version() -> dict[str, str]:
        """The version of infer, and the fingerprint of model, configuration and plugins."""
        return {"version": services.version, "fingerprint": services.fingerprint}

    @router.get("/plugins")
    async def plugins() -> dict[str, Any]:
        """Installed plugins and their states."""
        return {"plugins": [dict(plugin) for plugin in services.plugins]}

    @router.get("/stats")
    async def stats() -> dict[str, Any]:
        """A snapshot of the engine: requests, KV blocks, and counters since its start."""
        snapshot = await services.engine.stats()
        return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}

    @router.post("/reset_prefix_cache")
    async def reset_prefix_cache() -> dict[str, bool]:
        """Forget every cached prefix. `reset` is false when requests run: their blocks are forgotten as they end."""
        return {"reset": await services.engine.reset_cache()}

    return router


def _readiness(ready: bool, reason: str) -> Response:
    headers = {} if ready else {"Retry-After": "1"}
    return JSONResponse({"ready": ready, "reason": reason}, 200 if ready else 503, headers)
