"""The hook plugin: starts the exporter with the engine, and flushes it when serving ends."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from infer_api.hooks import hookimpl
from infer_api.services import RequestRecord
from infer_tracing_otel.environment import is_asked_for

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

__all__ = ["FLUSH_LIMIT_S", "Tracing"]

FLUSH_LIMIT_S = 3.0
"""How long the end of serving may wait for a collector that does not answer."""

_log = logging.getLogger(__name__)


class Tracing:
    """One span per sequence, sent in batches by a thread of the SDK. The SDK's global provider stays untouched.

    Raises ConfigError when the environment asks for what is not supported; the plugin is then left out.
    """

    def __init__(self, flush_limit_s: float = FLUSH_LIMIT_S) -> None:
        # The variables are OpenTelemetry's, and its SDK reads the rest of them in the same place.
        self._is_on = is_asked_for(os.environ)  # noqa: TID251
        self._flush_limit_s = flush_limit_s
        self._provider: TracerProvider | None = None

    @hookimpl
    def infer_engine_started(self) -> None:
        if self._is_on and self._provider is None:
            self._provider = _start_provider()
            _log.info("spans of requests are sent by OTLP")

    @hookimpl
    def infer_request_finished(self, record: RequestRecord) -> None:
        if self._provider is not None:
            from infer_tracing_otel.spans import record_span

            record_span(self._provider.get_tracer("infer"), record)

    @hookimpl
    def infer_shutdown(self) -> None:
        provider, self._provider = self._provider, None
        if provider is None:
            return
        # The SDK's own limits do not hold while it sends: a thread that may be left behind does the waiting.
        flush = threading.Thread(target=provider.shutdown, name="infer-tracing-flush", daemon=True)
        flush.start()
        flush.join(self._flush_limit_s)
        if flush.is_alive():
            _log.warning("the collector took no spans for %.0f s; the last ones are lost", self._flush_limit_s)


def _start_provider() -> TracerProvider:
    # Imported only when spans are wanted: it takes a quarter of a second.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "infer"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
