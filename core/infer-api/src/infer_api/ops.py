"""Kind `ops`: implementations of the small set of operations that layers are made of.

An op is a Python callable with `out=`; its signature and torch reference are listed in core's
op table. `bind` runs once per call site, so nothing is dispatched in the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["OpImpl", "OpOffer", "OpSite"]

OpImpl = Callable[..., Any]
"""`impl(*tensors, out=None)`; writes into `out` when given, and returns the result."""


@dataclass(frozen=True)
class OpSite:
    """One place that calls op `op`: device type, dtype, static sizes and options, and the range of rows."""

    op: str
    device_type: str
    dtype: str
    static: Mapping[str, Any] = field(default_factory=dict)
    max_rows: int = 0


class OpOffer(Protocol):
    """Built by the manifest's `implementation(options)`."""

    def __init__(self, options: Any) -> None: ...

    def bind(self, site: OpSite) -> OpImpl | None:
        """A callable for this site, or None when the site is not supported."""
        ...
