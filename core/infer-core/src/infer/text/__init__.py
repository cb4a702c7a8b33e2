"""Text to token ids and back, chat templates, and stop strings. Pure host code, no torch."""

from __future__ import annotations

__all__: list[str] = []
