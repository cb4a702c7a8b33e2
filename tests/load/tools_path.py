"""Importing this lets scripts of this folder find the modules under tests/tools, as pytest does by its settings."""

from __future__ import annotations

import sys
from pathlib import Path

__all__: list[str] = []

_TOOLS = str(Path(__file__).resolve().parents[1] / "tools")
if _TOOLS not in sys.path:
    sys.path.append(_TOOLS)
