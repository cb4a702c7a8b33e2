from __future__ import annotations

from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

from infer_api.requests import SamplingParams
from infer_api.services import RequestRecord
from infer_tracing_otel.spans import record_span, request_attributes

ARRIVAL_NS = 1_700_000_000_250_000_000
Make = Callable[..., RequestRecord]


@pytest.fixture
def recorded() -> Callable[[RequestRecord], ReadableSpan]:
    def record(of: RequestRecord) -> ReadableSpan:
        exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        record_span(provider.get_tracer("test"), of)
        (span,) = exporter.get_finished_spans()
        return span

    return record


def test_a_span_has_the_times_of_its_request(recorded: Callable[..., ReadableSpan], make_record: Make) -> None:
    span = recorded(make_record())
    assert (span.start_time, span.end_time) == (ARRIVAL_NS, ARRIVAL_NS + 1_000_000_000)
    assert [(event.name, event.timestamp - ARRIVAL_NS) for event in span.events] == [
        ("first_step", 125_000_000),
        ("first_token", 500_000_000),
    ]


def test_a_span_is_called_by_operation_and_model(recorded: Callable[..., ReadableSpan], make_record: Make) -> None:
    span = recorded(make_record())
    assert (span.name, span.kind) == ("chat tiny", SpanKind.SERVER)
    assert recorded(make_record(call_id="cmpl-1")).name == "text_completion tiny"


def test_attributes_are_those_of_the_conventions(make_record: Make) -> None:
    assert request_attributes(make_record()) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "infer",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny",
        "gen_ai.response.id": "chatcmpl-7",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 40,
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.seed": 5,
        "gen_ai.request.frequency_penalty": 0.0,
        "gen_ai.request.presence_penalty": 0.0,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.server.time_to_first_token": 0.5,
        "gen_ai.server.time_per_output_token": 0.2,
        "infer.queue_time": 0.125,
        "infer.request.id": "aa-1",
        "infer.client.request_id": "mine-3",
    }


def test_the_conventions_know_every_name_that_is_theirs(make_record: Make) -> None:
    known = {value for module in (gen_ai_attributes, gen_ai_metrics) for value in vars(module).values()
             if isinstance(value, str)}  # fmt: skip
    names = {name for name in request_attributes(make_record()) if name.startswith("gen_ai.")}
    assert names - known == set()


def test_what_is_not_known_is_left_out(recorded: Callable[..., ReadableSpan], make_record: Make) -> None:
    record = make_record(client_id="", queued_s=None, first_token_s=None, gaps_s=(), sampling=SamplingParams())
    span = recorded(record)
    assert span.events == ()
    missing = {"top_k", "max_tokens", "seed", "time_to_first_token", "time_per_output_token", "queue_time"}
    assert {name.rpartition(".")[2] for name in span.attributes or ()} & missing == set()
    assert "infer.client.request_id" not in (span.attributes or ())


def test_an_error_is_the_spans_status(recorded: Callable[..., ReadableSpan], make_record: Make) -> None:
    span = recorded(make_record(finish_reason="rejected", error=("queue_full", "64 requests wait already")))
    assert (span.attributes or {})["error.type"] == "queue_full"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "64 requests wait already")


def test_a_client_that_leaves_is_no_error(recorded: Callable[..., ReadableSpan], make_record: Make) -> None:
    span = recorded(make_record(finish_reason="abort"))
    assert span.status.status_code is StatusCode.UNSET
    assert (span.attributes or {})["gen_ai.response.finish_reasons"] == ("abort",)


def test_a_traceparent_makes_it_a_child_of_the_clients_span(
    recorded: Callable[..., ReadableSpan], make_record: Make
) -> None:
    span = recorded(make_record(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
    assert span.context is not None
    assert format(span.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent is not None
    assert format(span.parent.span_id, "016x") == "b7ad6b7169203331"


@pytest.mark.parametrize("sent", ["", "00-zz-1-01", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "x" * 5000])
def test_a_malformed_traceparent_begins_a_trace(
    recorded: Callable[..., ReadableSpan], make_record: Make, sent: str
) -> None:
    assert recorded(make_record(traceparent=sent)).parent is None
