"""Routes about the server itself: liveness, readiness, version, plugins."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from infer_api.services import Services

__all__ = ["admin_router"]


def admin_router(services: Services) -> APIRouter:
    """`/health`, `/ready`, `/version` and `/plugins`."""
    router = APIRouter(tags=["server"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> dict[str, str]:
        """Whether this process lives; says nothing of the engine."""
        return {"status": "ok"}

    @router.head("/ready", response_model=None, include_in_schema=False)
    @router.get("/ready", response_model=None)
    async def ready() -> Response:
        """Whether a request would be served now: 200, or 503 with the reason."""
        state = await services.engine.health()
        return JSONResponse({"ready": state.ready, "reason": state.reason}, 200 if state.ready else 503)

    @router.get("/version")
    async def version() -> dict[str, str]:
        """The version of infer, and the fingerprint of model, configuration and plugins."""
        return {"version": services.version, "fingerprint": services.fingerprint}

    @router.get("/plugins")
    async def plugins() -> dict[str, Any]:
        """Installed plugins and their states."""
        return {"plugins": [dict(plugin) for plugin in services.plugins]}

    return router
