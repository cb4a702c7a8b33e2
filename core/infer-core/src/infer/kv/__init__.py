"""Key-value cache: block ids, groups of layers, and the tensors behind them."""

from __future__ import annotations

__all__: list[str] = []
