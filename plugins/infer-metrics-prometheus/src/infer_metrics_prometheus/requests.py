"""Metrics of requests and replies: hooks count, a scrape only reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from infer_api.hooks import hookimpl
from infer_api.services import RequestRecord
from infer_metrics_prometheus.histograms import BatchHistogram
from infer_metrics_prometheus.options import MetricsOptions

__all__ = ["OUTCOMES", "RequestMetrics"]

OUTCOMES = ("stop", "length", "abort", "rejected", "error")
"""How a request can end; each is counted from the start, so that rates exist before the first one."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """Hook implementations that count into `registry`. Requests received = finished + open, at every moment."""

    def __init__(self, registry: CollectorRegistry, options: MetricsOptions) -> None:
        self._open: set[str] = set()
        self._received = Counter(
            "infer_requests_received", "Sequences that went to the engine; n choices are n.", registry=registry
        )
        self._finished = Counter(
            "infer_requests_finished", "Sequences by how they ended.", ["outcome"], registry=registry
        )
        for outcome in OUTCOMES:
            self._finished.labels(outcome)
        now = Gauge("infer_requests_open", "Sequences received that have not ended.", registry=registry)
        now.set_function(lambda: len(self._open))
        self._add_histograms(registry, options)
        self._add_responses(registry, options)

    def _add_histograms(self, registry: CollectorRegistry, options: MetricsOptions) -> None:
        def histogram(name: str, text: str, bounds: tuple[float, ...]) -> Histogram:
            return Histogram(f"infer_{name}", text, buckets=bounds, registry=registry)

        self._first_token = histogram(
            "time_to_first_token_seconds", "From arrival to the first token.", options.first_token_buckets_s
        )
        self._queue = histogram("queue_seconds", "From arrival to the first step.", options.queue_buckets_s)
        self._total = histogram("request_seconds", "From arrival to the end.", options.request_buckets_s)
        self._prompt = histogram("request_prompt_tokens", "Tokens of one prompt.", options.token_buckets)
        self._generated = histogram("request_generated_tokens", "Tokens generated for one.", options.token_buckets)
        self._gaps = BatchHistogram(
            "infer_inter_token_seconds", "Between two tokens of one sequence.", options.inter_token_buckets_s
        )
        registry.register(self._gaps)

    def _add_responses(self, registry: CollectorRegistry, options: MetricsOptions) -> None:
        self._responses = Counter(
            "infer_http_responses", "HTTP replies sent to their end.", ["method", "route", "status"], registry=registry
        )
        self._response_time = Histogram(
            "infer_http_response_seconds",
            "From an HTTP request to the end of its reply.",
            ["method", "route"],
            buckets=options.response_buckets_s,
            registry=registry,
        )

    @hookimpl
    def infer_request_received(self, request_id: str) -> None:
        self._open.add(request_id)
        self._received.inc()

    @hookimpl
    def infer_request_finished(self, request_id: str, finish_reason: str, record: RequestRecord) -> None:
        if request_id not in self._open:
            self._received.inc()  # the hooks were added while it ran
        self._open.discard(request_id)
        self._finished.labels(finish_reason).inc()
        self._prompt.observe(record.num_prompt_tokens)
        self._generated.observe(record.num_generated_tokens)
        self._total.observe(record.total_s)
        if record.queued_s is not None:
            self._queue.observe(record.queued_s)
        if record.first_token_s is not None:
            self._first_token.observe(record.first_token_s)
        self._gaps.observe(record.gaps_s)

    @hookimpl
    def infer_response_sent(self, method: str, route: str, status: int, duration_s: float) -> None:
        # Both words are the client's to choose where nothing matched: one series for all that we do not know.
        method = method if method in _METHODS else "other"
        route = route or "unmatched"
        self._responses.labels(method, route, str(status)).inc()
        self._response_time.labels(method, route).observe(duration_s)
