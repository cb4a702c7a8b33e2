"""Prometheus metrics of the server and its engine. Everything starts at `manifest.METRICS`."""

from __future__ import annotations

__all__: list[str] = []
