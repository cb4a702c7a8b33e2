"""The command `infer bench`: throughput of many requests at once, latency of one."""

from __future__ import annotations

__all__: list[str] = []
