"""Kind `routes`: HTTP routes on the server. The server owns the app, authentication and limits."""

from __future__ import annotations

from typing import Any, Protocol

from infer_api.services import Services

__all__ = ["Routes"]


class Routes(Protocol):
    """Built by the manifest's `implementation(options)`."""

    def __init__(self, options: Any) -> None: ...

    def router(self, services: Services) -> Any:
        """A `fastapi.APIRouter`. Handlers raise RequestError; the server turns errors into replies in one place."""
        ...
