"""The application: admin routes, the routes of plugins, and what stands in front of them."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from infer_api.services import Services
from infer_server.admin import admin_router
from infer_server.auth import AuthMiddleware
from infer_server.body import BodyMiddleware
from infer_server.cutting import CutMiddleware
from infer_server.errors import add_error_handlers
from infer_server.request_ids import RequestIdMiddleware

__all__ = ["make_app"]


def make_app(services: Services, routers: Sequence[APIRouter] = (), *, allowed_origins: Sequence[str] = ()) -> FastAPI:
    """A complete ASGI app over `services`; nothing else has to run for it, so tests call it as it is.

    Web pages may call it only from `allowed_origins` ("*" = any). Limits and keys come from `services`.
    """
    app = FastAPI(
        title="infer",
        version=services.version,
        middleware=_middleware(services, allowed_origins),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_error_handlers(app)
    for router in (admin_router(services), *routers):
        app.include_router(router)
    return app


def _middleware(services: Services, allowed_origins: Sequence[str]) -> list[Middleware]:
    """From the outside in. CORS comes before keys, because a browser's preflight request carries none."""
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(allowed_origins),
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["X-Request-Id"],
    )
    return [
        Middleware(RequestIdMiddleware),
        *([cors] if allowed_origins else []),
        Middleware(CutMiddleware),
        Middleware(AuthMiddleware, guard=services.guard),
        Middleware(BodyMiddleware, max_bytes=services.limits.max_body_bytes),
    ]
