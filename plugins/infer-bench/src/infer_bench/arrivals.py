"""When requests are sent: planned before the run, so that a slow server does not slow its clients."""

from __future__ import annotations

import math
import random
from itertools import accumulate

from infer_api.errors import ConfigError

__all__ = ["arrival_times", "parse_rate"]


def parse_rate(text: str, flag: str = "--request-rate") -> float:
    """Requests per second, math.inf for "inf". Raises ConfigError for what is no positive number."""
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not rate > 0:
        raise ConfigError(f"{flag} must be a number above 0, or inf; found {text!r}")
    return rate


def arrival_times(count: int, rate: float, burstiness: float, seed: int) -> list[float]:
    """Seconds from the start of the run to each of `count` arrivals; the first one is at 0.

    Gaps are gamma-distributed with mean 1 / `rate` and coefficient of variation 1 / sqrt(`burstiness`).
    """
    if math.isinf(rate):
        return [0.0] * count
    source = random.Random(f"arrivals {seed}")
    gaps = (source.gammavariate(burstiness, 1 / (rate * burstiness)) for _ in range(count - 1))
    return list(accumulate(gaps, initial=0.0))
