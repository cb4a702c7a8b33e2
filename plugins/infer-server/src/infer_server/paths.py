"""Which declared path a request's path belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from starlette.routing import compile_path
from starlette.types import Scope

__all__ = ["PathTable"]


class PathTable:
    """Declared paths ("/v1/models/{id}"), as the OpenAPI schema has them: with the prefix of whoever mounted them."""

    def __init__(self, declared: Iterable[str]) -> None:
        declared = tuple(declared)
        self._plain = frozenset(path for path in declared if "{" not in path)
        self._patterns: list[tuple[re.Pattern[str], str]] = [
            (compile_path(path)[0], path) for path in declared if "{" in path
        ]

    def find(self, scope: Scope) -> str:
        """The declared path, or "" where there is none. Also for requests that were refused before they got there."""
        path = scope["path"]
        if path in self._plain:
            return str(path)
        for pattern, declared in self._patterns:
            if pattern.match(path):
                return declared
        route: Any = scope.get("route")  # one that the schema does not show
        return str(getattr(route, "path", "") or "")
