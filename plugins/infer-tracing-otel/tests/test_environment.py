from __future__ import annotations

import pytest

from infer_api.errors import ConfigError
from infer_tracing_otel.environment import is_asked_for

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    "environment",
    [
        ENDPOINT,
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"},
        {"OTEL_TRACES_EXPORTER": "otlp"},
        {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        {**ENDPOINT, "OTEL_SDK_DISABLED": "false"},
        {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
    ],
)
def test_an_endpoint_or_the_exporter_asks_for_spans(environment: dict[str, str]) -> None:
    assert is_asked_for(environment)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": " "},
        {"OTEL_SERVICE_NAME": "mine"},
        {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"},
        {**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"},
        {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318"},
    ],
)
def test_nothing_is_sent_that_nobody_asked_for(environment: dict[str, str]) -> None:
    assert not is_asked_for(environment)


@pytest.mark.parametrize(
    ("environment", "word"),
    [({"OTEL_TRACES_EXPORTER": "zipkin"}, "zipkin"), ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc")],
)
def test_what_is_not_supported_is_named(environment: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        is_asked_for(environment)
