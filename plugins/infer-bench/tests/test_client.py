from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infer_bench.client import StreamClient
from infer_bench.prompts import Prompt
from infer_bench.records import RequestRecord
from infer_bench.server import free_port
from infer_bench.target import Target, open_session

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


async def sent(url: str, prompt: Prompt, *, endpoint: str = COMPLETIONS, timeout_s: float = 10.0) -> RequestRecord:
    target = Target.at("server", url, endpoint, model="stub", api_key="secret")
    record = RequestRecord(0, 0.0, input_tokens=prompt.input_len)
    async with open_session(target, timeout_s) as session:
        await StreamClient(session, target, {"temperature": 0.0}).send(prompt, record)
    return record


async def test_measured_times_are_those_of_the_server(serve_stub: Callable[..., Any], events: Any) -> None:
    stub = serve_stub(lambda body: events.answer_of(body, first_s=0.15, gap_s=0.05))
    record = await sent(stub.url, Prompt("a b", 2, 5))
    assert record.error == ""
    assert record.ttft_s == pytest.approx(0.15, abs=0.04)
    assert record.gaps_s == pytest.approx([0.05] * 4, abs=0.03)
    assert record.e2el_s == pytest.approx(0.35, abs=0.06)
    assert record.tpot_s == pytest.approx(0.05, abs=0.015)
    assert (record.output_tokens, record.tokens_from, record.input_tokens) == (5, "usage", 7)


async def test_the_body_is_that_of_the_endpoint(serve_stub: Callable[..., Any]) -> None:
    stub = serve_stub()
    await sent(stub.url, Prompt([4, 2], 2, 3))
    await sent(stub.url, Prompt("hi", 1, 3), endpoint=CHAT)
    common = {
        "model": "stub",
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
    }
    assert stub.bodies[0] == {**common, "prompt": [4, 2]}
    assert stub.bodies[1] == {**common, "messages": [{"role": "user", "content": "hi"}]}
    assert {headers["authorization"] for headers in stub.headers} == {"Bearer secret"}


async def test_bytes_may_come_in_any_pieces(serve_stub: Callable[..., Any], events: Any) -> None:
    whole = b"".join(step for step in events.answer_of({"max_tokens": 3}) if isinstance(step, bytes))
    whole = b": ping\r\n\r\n" + whole.replace(b"\n", b"\r\n").replace(b"data: ", b"data:")
    stub = serve_stub(lambda body: [step for at in range(0, len(whole), 11) for step in (whole[at : at + 11], 0.001)])
    record = await sent(stub.url, Prompt("a", 1, 3))
    assert (record.error, record.output_tokens, len(record.gaps_s)) == ("", 3, 2)


async def test_an_error_event_is_a_failure(serve_stub: Callable[..., Any], events: Any) -> None:
    error = {"error": {"message": "the engine has stopped", "code": "engine_dead"}}
    stub = serve_stub(lambda body: [events.piece("a"), events.sse(error)])
    record = await sent(stub.url, Prompt("a", 1, 3))
    assert (record.error, record.output_tokens) == ("error event", 0)
    assert "engine_dead" in record.detail


async def test_a_connection_that_ends_early_is_a_failure(serve_stub: Callable[..., Any], events: Any) -> None:
    for steps in ([events.piece("a"), "cut"], ["cut"], [events.piece("a")], []):
        stub = serve_stub(lambda body, steps=steps: steps)
        assert (await sent(stub.url, Prompt("a", 1, 3))).error == "cut short"


async def test_other_failures_are_told_by_kind(serve_stub: Callable[..., Any], events: Any) -> None:
    prompt = Prompt("a", 1, 3)
    busy = await sent(serve_stub(status=503).url, prompt)
    assert (busy.error, busy.detail) == ("HTTP 503", '{"error": {"message": "scripted"}}')
    assert (await sent(serve_stub(content_type="application/json").url, prompt)).error == "no event stream"
    assert (await sent(f"http://127.0.0.1:{free_port()}", prompt)).error == "no connection"
    slow = await sent(serve_stub(lambda body: [events.piece("a"), 5.0]).url, prompt, timeout_s=0.2)
    assert slow.error == "timed out"
    assert slow.e2el_s == pytest.approx(0.2, abs=0.1)
