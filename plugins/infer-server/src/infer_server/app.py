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
from infer_server.docs_page import docs_router
from infer_server.errors import add_error_handlers
from infer_server.gate import Gate, GateMiddleware
from infer_server.openapi import DescribedApp
from infer_server.paths import PathTable
from infer_server.request_ids import RequestIdMiddleware
from infer_server.watching import WatchMiddleware

__all__ = ["make_app"]


def make_app(
    services: Services,
    routers: Sequence[APIRouter] = (),
    *,
    allowed_origins: Sequence[str] = (),
    docs: bool = True,
    gate: Gate | None = None,
    body_timeout_s: float = 30.0,
) -> FastAPI:
    """A complete ASGI app over `services`; nothing else has to run for it, so tests call it as it is.

    Web pages may call it only from `allowed_origins` ("*" = any). `docs`: whether /docs and /openapi.json are served.
    `gate` bounds the requests at once. Other limits and keys come from `services`.
    """
    gate = gate or Gate(max_requests=2048)
    app = DescribedApp(
        title="infer",
        version=services.version,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json" if docs else None,
        redirect_slashes=False,
    )
    app.needs_key = not services.guard.allows(None)
    add_error_handlers(app)
    for router in (admin_router(services, gate), *routers, *([docs_router(app.openapi)] if docs else [])):
        app.include_router(router)
    paths = PathTable((*app.openapi()["paths"], "/openapi.json", "/docs"))
    for each in reversed(_middleware(services, gate, paths, allowed_origins, body_timeout_s)):
        app.add_middleware(each.cls, *each.args, **each.kwargs)
    return app


def _middleware(
    services: Services, gate: Gate, paths: PathTable, allowed_origins: Sequence[str], body_timeout_s: float
) -> list[Middleware]:
    """From the outside in. CORS comes before keys, because a browser's preflight request carries none."""
    limits = services.limits
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(allowed_origins),
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["X-Request-Id", "Retry-After"],
    )
    return [
        Middleware(RequestIdMiddleware),
        Middleware(WatchMiddleware, tell=services.tell, paths=paths),
        *([cors] if allowed_origins else []),
        Middleware(CutMiddleware),
        Middleware(AuthMiddleware, guard=services.guard),
        Middleware(GateMiddleware, gate=gate),
        Middleware(
            BodyMiddleware,
            max_bytes=limits.max_body_bytes,
            max_depth=limits.max_json_depth,
            timeout_s=body_timeout_s,
        ),
    ]
