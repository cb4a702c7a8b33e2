"""The routes plugin `metrics`."""

from __future__ import annotations

from infer_api.manifest import Requires, RoutesPlugin
from infer_metrics_prometheus.options import MetricsOptions

__all__ = ["METRICS"]

METRICS = RoutesPlugin(
    name="metrics",
    summary="Prometheus metrics of requests, replies and the engine, at GET /metrics.",
    implementation="infer_metrics_prometheus.routes:MetricsRoutes",
    options=MetricsOptions,
    requires=Requires(modules=("fastapi", "prometheus_client")),
)
