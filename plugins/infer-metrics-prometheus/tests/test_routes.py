from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from infer_api.services import Services
from infer_metrics_prometheus.options import MetricsOptions
from infer_metrics_prometheus.routes import NAME, MetricsRoutes

DOCS = Path(__file__).parents[3] / "docs" / "observability.md"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.2"
)


async def test_without_a_wish_the_reply_is_the_text_format(client: httpx.AsyncClient) -> None:
    reply = await client.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE infer_requests_received_total counter" in reply.text


@pytest.mark.parametrize("accept", [PROMETHEUS, "application/openmetrics-text; version=nonsense"])
async def test_openmetrics_is_answered_where_it_is_accepted(client: httpx.AsyncClient, accept: str) -> None:
    reply = await client.get("/metrics", headers={"Accept": accept})
    assert reply.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert reply.text.endswith("# EOF\n")
    families = {family.name for family in parse_openmetrics(reply.text)}
    assert {"infer_requests_received", "infer_inter_token_seconds", "infer_plugin"} <= families


async def test_no_family_is_there_twice_in_either_format(client: httpx.AsyncClient) -> None:
    for accept in ("text/plain", "application/openmetrics-text"):
        names = re.findall(r"^# TYPE (\S+)", (await client.get("/metrics", headers={"Accept": accept})).text, re.M)
        assert len(names) == len(set(names))


async def test_facts_are_labels(client: httpx.AsyncClient) -> None:
    text = (await client.get("/metrics")).text
    assert re.search(r'^infer_build_info\{fingerprint="fp_1",model="tiny",version="0.1.0"\} 1.0$', text, re.M)
    (line,) = re.findall(r"^infer_plugin_info\{(.*)\} 1.0$", text, re.M)
    assert dict(re.findall(r'(\w+)="([^"]*)"', line)) == {
        "kind": "models",
        "name": "llama",
        "distribution": "infer-model-llama",
        "version": "0.1.0",
        "state": "selected",
    }


async def test_the_process_is_measured(client: httpx.AsyncClient) -> None:
    names = {family.name for family in text_string_to_metric_families((await client.get("/metrics")).text)}
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "process_open_fds"} <= names


def test_the_hooks_are_registered_under_the_distributions_name(client: Any, hooks: list[tuple[Any, str]]) -> None:
    assert [name for _, name in hooks] == [NAME]


async def test_two_servers_of_one_process_share_nothing(services: Services, hooks: list[tuple[Any, str]]) -> None:
    for _ in range(2):
        MetricsRoutes(MetricsOptions()).router(services)
    (first, _), (second, _) = hooks
    first.infer_request_received(request_id="a")
    assert (first._received._value.get(), second._received._value.get()) == (1, 0)


async def test_buckets_are_options(services: Services) -> None:
    app = FastAPI()
    app.include_router(MetricsRoutes(MetricsOptions(queue_buckets_s=(0.5, 2.0))).router(services))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as opened:
        text = (await opened.get("/metrics")).text
    assert re.findall(r'^infer_queue_seconds_bucket\{le="(.*)"\}', text, re.M) == ["0.5", "2.0", "+Inf"]


async def test_the_servers_keys_guard_it(services: Services) -> None:
    server = pytest.importorskip("infer_server.app", reason="the keys are the server's")

    class Keys:
        def allows(self, authorization: str | None) -> bool:
            return authorization == "Bearer right"

    app = server.make_app(replace(services, guard=Keys()), [MetricsRoutes(MetricsOptions()).router(services)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as opened:
        assert (await opened.get("/metrics")).status_code == 401
        assert (await opened.get("/metrics", headers={"Authorization": "Bearer right"})).status_code == 200


@pytest.mark.skipif(not DOCS.is_file(), reason="the page is in the repository, not in the distribution")
async def test_the_page_lists_exactly_the_metrics_that_there_are(client: httpx.AsyncClient, counter: Any) -> None:
    counter.infer_response_sent(method="GET", route="/ready", status=200, duration_s=0.1)
    text = (await client.get("/metrics")).text
    served = {(name, kind) for name, kind in re.findall(r"^# TYPE (infer_\w+) (\w+)", text, re.M)}
    served = {(name, kind) for name, kind in served if not name.endswith("_created")}
    listed = re.findall(r"^\| `(infer_\w+)` \| (\w+) \|", DOCS.read_text(encoding="utf-8"), re.M)
    assert len(listed) == len(set(listed))
    # The text format has no type for facts; it calls them gauges.
    assert {(name, "gauge" if kind == "info" else kind) for name, kind in listed} == served
