"""OpenTelemetry traces of requests. Everything starts at `tracing.Tracing`, a plugin of the group `infer.hooks`."""

from __future__ import annotations

__all__: list[str] = []
