"""The serving side: requests are checked and rendered, engine outputs become text, and both meet in `Services`."""

from __future__ import annotations

__all__: list[str] = []
