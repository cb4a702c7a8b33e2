"""How many tokens of prompts fit into a step without holding up those who are being answered for too long."""

from __future__ import annotations

__all__ = ["Pacer"]

_FIRST_CHUNK = 64
_LEAST_CHUNK = 16
_MARGIN = 0.85
_LEAST_SHARE = 0.25


class Pacer:
    """Learns from finished steps: seconds of a step = `base` (rows that decode) + `cost` · tokens of prompts.

    A step shall end within the bound; where rows that decode take most of it by themselves, prompts get a quarter of
    the bound all the same, or they would never end. Costs rise with the length of what is attended to, so a dearer
    step counts more than a cheaper one. `bound_s` 0 is no bound.
    """

    def __init__(self, bound_s: float) -> None:
        self._bound_s = bound_s
        self._base_s = 0.0
        self._cost_s: float | None = None

    def budget(self, most: int) -> int:
        """Tokens of prompts for a step in which other rows decode, up to `most`."""
        if self._bound_s == 0:
            return most
        if self._cost_s is None:
            return min(most, _FIRST_CHUNK)
        room_s = max(self._bound_s * _MARGIN - self._base_s, self._bound_s * _LEAST_SHARE)
        return min(most, max(_LEAST_CHUNK, int(room_s / max(self._cost_s, 1e-9))))

    def observe(self, num_prefill: int, num_decodes: int, seconds: float) -> None:
        """A step took `seconds`, with `num_prefill` tokens of prompts beside `num_decodes` rows that decoded."""
        if num_prefill == 0:
            self._base_s += 0.3 * (seconds - self._base_s)
            return
        if num_decodes:
            # Only steps without prompts tell the base, and a long prompt may keep them away for long.
            self._base_s = min(self._base_s, seconds)
        if num_prefill < _LEAST_CHUNK:
            return
        cost = max(0.0, seconds - (self._base_s if num_decodes else 0.0)) / num_prefill
        if self._cost_s is None:
            self._cost_s = cost
        else:
            self._cost_s += (0.7 if cost > self._cost_s else 0.4) * (cost - self._cost_s)
