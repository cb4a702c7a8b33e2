"""Options of the CPU platform."""

from __future__ import annotations

from pydantic import Field

from infer_api.options import Options

__all__ = ["CpuOptions"]


class CpuOptions(Options):
    """Options of the CPU platform."""

    threads: int = Field(default=0, ge=0, le=4096)
    """Threads that compute a step; 0 takes the cores that affinity and container quota allow."""
