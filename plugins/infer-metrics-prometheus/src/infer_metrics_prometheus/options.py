"""Where the buckets of the histograms end."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from infer_api.options import Options

__all__ = ["Buckets", "MetricsOptions"]


def _ascending(bounds: tuple[float, ...]) -> tuple[float, ...]:
    if not all(low < high for low, high in pairwise((0.0, *bounds))) or math.isinf(bounds[-1]):
        raise ValueError(f"the bounds must be above 0, finite and ascending, found {', '.join(map(str, bounds))}")
    return bounds


Buckets = Annotated[tuple[float, ...], Field(min_length=1, max_length=100), AfterValidator(_ascending)]
"""Upper bounds, ascending; the last bucket, without a bound, comes by itself."""


class MetricsOptions(Options):
    """Upper bounds of histogram buckets. Each bound is one more time series."""

    first_token_buckets_s: Buckets = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
    """Bounds for the time to the first token, in seconds."""
    inter_token_buckets_s: Buckets = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0)
    """Bounds for the time between tokens, in seconds."""
    queue_buckets_s: Buckets = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
    """Bounds for the time before a request's first step, in seconds."""
    request_buckets_s: Buckets = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
    """Bounds for the time of whole requests, in seconds."""
    response_buckets_s: Buckets = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
    """Bounds for the time of HTTP replies, in seconds."""
    token_buckets: Buckets = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)
    """Bounds for the number of tokens of one request's prompt, and of what is generated for it."""
