"""`GET /metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from infer_api.services import Services
from infer_metrics_prometheus.engine import EngineProbe, engine_metrics
from infer_metrics_prometheus.options import MetricsOptions
from infer_metrics_prometheus.requests import RequestMetrics

__all__ = ["NAME", "MetricsRoutes"]

NAME = "infer-metrics-prometheus"
_PLUGIN_LABELS = ("kind", "name", "distribution", "version", "state")


class MetricsRoutes:
    """The plugin. Every router has a registry of its own, so nothing is shared between servers of one process."""

    def __init__(self, options: MetricsOptions) -> None:
        self._options = options

    def router(self, services: Services) -> APIRouter:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        services.add_hooks(RequestMetrics(registry, self._options), NAME)
        probe = EngineProbe(services.engine)
        router = APIRouter(tags=["server"])

        @router.get("/metrics", response_class=Response)
        async def metrics(request: Request) -> Response:
            """Metrics in Prometheus' text format, or in OpenMetrics where `Accept` names it."""
            view = await probe.view()
            found = _Families(chain(registry.collect(), engine_metrics(view), _facts(services)))
            if "application/openmetrics-text" in request.headers.get("accept", ""):
                return _reply(openmetrics.generate_latest(found), openmetrics.CONTENT_TYPE_LATEST)
            return _reply(generate_latest(found), CONTENT_TYPE_PLAIN_0_0_4)

        return router


class _Families(Collector):
    """Families that were collected already, for the library's writers."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _facts(services: Services) -> Iterator[Metric]:
    """What does not change while the server runs; each is 1."""
    plugins = InfoMetricFamily("infer_plugin", "An installed plugin and its state.", labels=_PLUGIN_LABELS)
    for plugin in services.plugins:
        plugins.add_metric([str(plugin.get(label, "")) for label in _PLUGIN_LABELS], {})
    yield plugins
    build = {"version": services.version, "model": services.models[0].id, "fingerprint": services.fingerprint}
    yield InfoMetricFamily("infer_build", "What is served, and by which version.", build)


def _reply(body: bytes, content_type: str) -> Response:
    return Response(body, headers={"Content-Type": content_type})
