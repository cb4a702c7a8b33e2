"""A collector that decodes what it is sent, an environment without OTEL_* variables, and records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from infer_api.requests import SamplingParams
from infer_api.services import RequestRecord


@dataclass
class Collector:
    """What arrived at `url`. While `gate` is closed, it takes requests and does not answer."""

    url: str = ""
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    @property
    def spans(self) -> list[Span]:
        """All spans, in order of arrival."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A real HTTP server on a free port."""
    found = Collector()
    found.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.gate.wait(30)
            if self.path == "/v1/traces":
                found.requests.append(ExportTraceServiceRequest.FromString(body))
                found.headers.append(dict(self.headers))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def make_record() -> Callable[..., RequestRecord]:
    def make(**changes: Any) -> RequestRecord:
        facts: dict[str, Any] = {
            "request_id": "aa-1",
            "call_id": "chatcmpl-7",
            "client_id": "mine-3",
            "model": "tiny",
            "finish_reason": "stop",
            "num_prompt_tokens": 12,
            "num_cached_tokens": 8,
            "num_generated_tokens": 3,
            "arrival_s": 1_700_000_000.25,
            "queued_s": 0.125,
            "first_token_s": 0.5,
            "total_s": 1.0,
            "gaps_s": (0.1, 0.3),
            "sampling": SamplingParams(temperature=0.7, top_p=0.9, top_k=40, max_tokens=64, seed=5),
            **changes,
        }
        return RequestRecord(**facts)

    return make
