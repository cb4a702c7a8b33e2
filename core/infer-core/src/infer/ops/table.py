"""Which implementation each op call site got. Sites are bound once, when a model is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from infer.ops.reference import REFERENCE_OPS, bind_reference
from infer_api.errors import PluginError
from infer_api.ops import OpImpl, OpOffer, OpSite

__all__ = ["REFERENCE", "BoundOp", "OpTable"]

REFERENCE = "reference"
"""Name under which core's own torch implementations appear among the winners."""


@dataclass(frozen=True)
class BoundOp:
    """One call site and the name of the offer that serves it."""

    site: OpSite
    winner: str


class OpTable:
    """Offers in order of preference, before core's references. `dtype` is the activation type ("float32", …)."""

    def __init__(self, offers: Sequence[tuple[str, OpOffer]], device_type: str, dtype: str, max_rows: int = 0) -> None:
        self._offers = tuple(offers)
        self._device_type = device_type
        self._dtype = dtype
        self._max_rows = max_rows
        self._bound: dict[tuple[str, tuple[tuple[str, Any], ...]], tuple[OpImpl, BoundOp]] = {}

    def bind(self, op: str, **static: Any) -> OpImpl:
        """The first offer's callable for `op` with these static facts; equal sites share one.

        Raises PluginError with near misses when nobody implements `op`.
        """
        key = (op, tuple(sorted(static.items())))
        if key not in self._bound:
            site = OpSite(op, self._device_type, self._dtype, static, self._max_rows)
            implementation, winner = self._choose(site)
            self._bound[key] = (implementation, BoundOp(site, winner))
        return self._bound[key][0]

    def bound(self) -> tuple[BoundOp, ...]:
        """Every site bound so far with its winner, in order of binding; shown by `infer explain`."""
        return tuple(record for _, record in self._bound.values())

    def _choose(self, site: OpSite) -> tuple[OpImpl, str]:
        for name, offer in self._offers:
            implementation = offer.bind(site)
            if implementation is not None:
                return implementation, name
        reference = bind_reference(site)
        if reference is None:
            near = get_close_matches(site.op, REFERENCE_OPS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            asked = ", ".join(name for name, _ in self._offers) or "none"
            raise PluginError(
                f"no implementation of op {site.op!r} for {site.device_type} and {site.dtype} "
                f"(offers asked: {asked}; core has {', '.join(REFERENCE_OPS)}).{hint}"
            )
        return reference, REFERENCE
