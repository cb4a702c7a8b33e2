"""Which rows run in the next step, and with how many tokens. Pure host logic, no torch."""

from __future__ import annotations

__all__: list[str] = []
