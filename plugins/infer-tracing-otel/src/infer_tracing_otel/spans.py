"""One finished sequence as a span: names, attributes and events by the semantic conventions for generative AI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from infer_api.services import RequestRecord

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

__all__ = ["record_span", "request_attributes"]

# The names are written out: the package that lists them still marks them as incubating, and moves them.
Value = str | int | float | tuple[str, ...]


def record_span(tracer: Tracer, record: RequestRecord) -> None:
    """Make the span of `record`, with the times that it had, and hand it to the exporter's queue.

    It is a child of the span that the client names in `traceparent`; one that is malformed begins a trace of its own.
    """
    start_ns = _ns(record.arrival_s)

    def after(seconds: float) -> int:
        return start_ns + _ns(seconds)

    parent = TraceContextTextMapPropagator().extract({"traceparent": record.traceparent}, Context())
    span = tracer.start_span(
        f"{_operation(record)} {record.model}",
        context=parent,
        kind=SpanKind.SERVER,
        attributes=request_attributes(record),
        start_time=start_ns,
    )
    if record.queued_s is not None:
        span.add_event("first_step", timestamp=after(record.queued_s))
    if record.first_token_s is not None:
        span.add_event("first_token", timestamp=after(record.first_token_s))
    if record.error is not None:
        span.set_status(Status(StatusCode.ERROR, record.error[1]))
    span.end(end_time=after(record.total_s))


def request_attributes(record: RequestRecord) -> dict[str, Value]:
    """Attributes of the span; what is not known is left out. No text of the prompt or the answer is among them."""
    return {
        "gen_ai.operation.name": _operation(record),
        "gen_ai.provider.name": "infer",
        "gen_ai.request.model": record.model,
        "gen_ai.response.model": record.model,
        "gen_ai.response.id": record.call_id,
        "gen_ai.response.finish_reasons": (record.finish_reason,),
        "gen_ai.usage.input_tokens": record.num_prompt_tokens,
        "gen_ai.usage.output_tokens": record.num_generated_tokens,
        "gen_ai.usage.cache_read.input_tokens": record.num_cached_tokens,
        **dict(_sampling(record)),
        **dict(_times(record)),
        "infer.request.id": record.request_id,
        **({"infer.client.request_id": record.client_id} if record.client_id else {}),
        **({"error.type": record.error[0]} if record.error is not None else {}),
    }


def _ns(seconds: float) -> int:
    # By way of microseconds: a float of today's time has no digits below them.
    return round(seconds * 1_000_000) * 1000


def _operation(record: RequestRecord) -> str:
    """Ids of replies say what was asked for, as they do at OpenAI: chatcmpl-… or cmpl-…"""
    return "chat" if record.call_id.startswith("chat") else "text_completion"


def _sampling(record: RequestRecord) -> Iterator[tuple[str, Value]]:
    sampling = record.sampling
    yield "gen_ai.request.temperature", sampling.temperature
    yield "gen_ai.request.top_p", sampling.top_p
    yield "gen_ai.request.frequency_penalty", sampling.frequency_penalty
    yield "gen_ai.request.presence_penalty", sampling.presence_penalty
    if sampling.top_k > 0:
        yield "gen_ai.request.top_k", sampling.top_k
    if sampling.max_tokens is not None:
        yield "gen_ai.request.max_tokens", sampling.max_tokens
    if sampling.seed is not None:
        yield "gen_ai.request.seed", sampling.seed


def _times(record: RequestRecord) -> Iterator[tuple[str, Value]]:
    """In seconds; named as the conventions name the metrics of servers."""
    if record.queued_s is not None:
        yield "infer.queue_time", record.queued_s
    if record.first_token_s is not None:
        yield "gen_ai.server.time_to_first_token", record.first_token_s
    if record.gaps_s:
        yield "gen_ai.server.time_per_output_token", sum(record.gaps_s) / len(record.gaps_s)
