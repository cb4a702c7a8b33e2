"""Limits that a served request should keep (SLO)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infer_api.errors import ConfigError
from infer_bench.records import RequestRecord

__all__ = ["num_good", "parse_limits"]

TIMES = ("ttft", "tpot", "e2el")


def parse_limits(words: Iterable[str]) -> dict[str, float]:
    """{"ttft": 200.0} from ("ttft:200",), in ms. Words may hold several, with spaces between. Raises ConfigError."""
    limits: dict[str, float] = {}
    for word in " ".join(words).split():
        name, _, text = word.partition(":")
        try:
            limit = float(text)
        except ValueError:
            limit = -1.0
        if name not in TIMES or not limit > 0:
            raise ConfigError(f"--goodput takes {', '.join(f'{each}:MS' for each in TIMES)}; found {word!r}")
        limits[name] = limit
    return limits


def num_good(records: Iterable[RequestRecord], limits: Mapping[str, float]) -> int:
    """How many requests succeeded within all limits. A request of one token has no TPOT, and keeps any limit on it."""
    return sum(record.is_ok and _keeps(record, limits) for record in records)


def _keeps(record: RequestRecord, limits: Mapping[str, float]) -> bool:
    times_s = {"ttft": record.ttft_s, "tpot": record.tpot_s, "e2el": record.e2el_s}
    return all((time_s := times_s[name]) is None or time_s * 1000 <= limit for name, limit in limits.items())
