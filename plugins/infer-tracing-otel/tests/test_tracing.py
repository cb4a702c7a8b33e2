from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pluggy
import pytest

from infer_api.errors import ConfigError
from infer_api.hooks import HOOK_PROJECT, InferHooks
from infer_api.services import RequestRecord
from infer_tracing_otel.tracing import Tracing

Make = Callable[..., RequestRecord]


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if "Otel" in thread.name or "tracing" in thread.name}


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes of a span or a resource, of strings and numbers."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def test_its_hooks_are_among_the_specifications() -> None:
    manager = pluggy.PluginManager(HOOK_PROJECT)
    manager.add_hookspecs(InferHooks)
    manager.register(Tracing())
    manager.check_pending()


def test_without_variables_nothing_is_started_or_imported(make_record: Make) -> None:
    tracing = Tracing()
    tracing.infer_engine_started()
    tracing.infer_request_finished(make_record())
    tracing.infer_shutdown()
    assert threads() == set()
    code = "import infer_tracing_otel.tracing as t, sys; t.Tracing().infer_engine_started(); print(sorted(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "opentelemetry" not in printed.replace("infer_tracing_otel", "")


def test_spans_arrive_with_headers_and_service_name(
    collector: Any, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=models")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    tracing = Tracing()
    tracing.infer_engine_started()
    for number in range(3):
        tracing.infer_request_finished(make_record(request_id=str(number)))
    tracing.infer_shutdown()
    assert [attributes(span.attributes)["infer.request.id"] for span in collector.spans] == ["0", "1", "2"]
    assert len({span.trace_id for span in collector.spans}) == 3
    assert collector.headers[0]["x-team"] == "models"
    resource = attributes(collector.requests[0].resource_spans[0].resource.attributes)
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("infer", "test")
    assert threads() == set()


def test_a_service_name_of_the_user_stays(collector: Any, make_record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "chat-backend")
    tracing = Tracing()
    tracing.infer_engine_started()
    tracing.infer_request_finished(make_record())
    tracing.infer_shutdown()
    assert attributes(collector.requests[0].resource_spans[0].resource.attributes)["service.name"] == "chat-backend"


def test_a_sampler_of_the_environment_is_heeded(
    collector: Any, make_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracing = Tracing()
    tracing.infer_engine_started()
    tracing.infer_request_finished(make_record())
    tracing.infer_shutdown()
    assert collector.spans == []


def test_a_collector_that_does_not_answer_delays_neither_requests_nor_the_end_for_long(
    collector: Any, make_record: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    collector.gate.clear()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
    tracing = Tracing(flush_limit_s=0.3)
    tracing.infer_engine_started()
    record, begun = make_record(), time.monotonic()
    with caplog.at_level(logging.CRITICAL, logger="opentelemetry"):
        for _ in range(500):
            tracing.infer_request_finished(record)
    assert time.monotonic() - begun < 1.0
    begun = time.monotonic()
    tracing.infer_shutdown()
    assert 0.2 < time.monotonic() - begun < 1.0
    assert "the last ones are lost" in caplog.text
    collector.gate.set()


def test_after_the_end_requests_are_ignored(collector: Any, make_record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    tracing = Tracing()
    tracing.infer_engine_started()
    tracing.infer_shutdown()
    tracing.infer_request_finished(make_record())
    tracing.infer_shutdown()
    assert collector.spans == []


def test_the_global_provider_stays_as_it_was(collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    before = trace.get_tracer_provider()
    tracing = Tracing()
    tracing.infer_engine_started()
    assert trace.get_tracer_provider() is before
    tracing.infer_shutdown()


def test_a_wrong_variable_is_told_when_the_plugin_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "jaeger")
    with pytest.raises(ConfigError, match="'jaeger'"):
        Tracing()
