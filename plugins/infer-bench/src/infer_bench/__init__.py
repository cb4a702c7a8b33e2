"""The command `infer bench`: throughput, latency, servers under load, their start, and sweeps."""

from __future__ import annotations

__all__: list[str] = []
