from __future__ import annotations

import pytest
from pydantic import ValidationError

from infer_api.manifest import write_manifest
from infer_metrics_prometheus.manifest import METRICS
from infer_metrics_prometheus.options import MetricsOptions
from infer_metrics_prometheus.routes import MetricsRoutes


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_metrics_prometheus", check=True)


def test_the_implementation_is_the_routes() -> None:
    module, _, name = METRICS.implementation.partition(":")
    assert (module, name) == (MetricsRoutes.__module__, MetricsRoutes.__name__)


@pytest.mark.parametrize("bounds", [(), (0.0, 1.0), (-1.0,), (2.0, 1.0), (1.0, 1.0), (1.0, float("inf"))])
def test_bounds_that_are_no_buckets_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError):
        MetricsOptions(request_buckets_s=bounds)


def test_not_a_number_is_no_bound() -> None:
    with pytest.raises(ValidationError):
        MetricsOptions(request_buckets_s=(1.0, float("nan")))


def test_bounds_are_taken_as_they_are() -> None:
    assert MetricsOptions(token_buckets=(1, 10, 100)).token_buckets == (1, 10, 100)
