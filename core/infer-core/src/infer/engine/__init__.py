"""The engine: requests in, tokens out, one step at a time; and its clients in this process or another."""

from __future__ import annotations

__all__: list[str] = []
