"""Operations that layers are made of: their torch references, and the table that binds the best offer."""

from __future__ import annotations

__all__: list[str] = []
