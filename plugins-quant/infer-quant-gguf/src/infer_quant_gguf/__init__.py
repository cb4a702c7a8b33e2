"""GGUF for infer: reading the files, and computing with their quantised weights."""

from __future__ import annotations

__all__: list[str] = []
