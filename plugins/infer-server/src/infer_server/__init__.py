"""The HTTP server of infer: app, authentication, limits, admin routes, and the command `infer serve`."""

from __future__ import annotations

__all__: list[str] = []
