"""The hooks behind the real pipeline of infer-core, whose engine plays a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from infer_api.errors import RequestError
from infer_api.requests import EngineOutput, EngineRequest, SamplingParams
from infer_api.services import Limits, ModelCard, Rendered
from infer_tracing_otel.tracing import Tracing

outputs = pytest.importorskip("infer.service.outputs", reason="the pipeline is part of infer-core")
hooks = pytest.importorskip("infer.plugins.hooks")

CARD = ModelCard(id="tiny", aliases=(), max_model_len=64, vocab_size=257, created_s=1, has_chat_template=True)
LIMITS = Limits(**dict.fromkeys(Limits.__dataclass_fields__, 64))


class Engine:
    """Three tokens for every request, one at a time; refuses prompts of one token, and never ends those of two."""

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        if len(request.prompt_ids) == 1:
            raise RequestError("4 sequences wait already", code="queue_full", status=503)
        for number in range(3):
            await asyncio.sleep(0.01)
            is_last = number == 2 and len(request.prompt_ids) > 2
            yield EngineOutput(
                request_id=request.request_id,
                token_ids=[number],
                finish_reason="length" if is_last else None,
                queued_s=0.002 if number == 0 else None,
            )
        await asyncio.sleep(60)


@pytest.fixture
def pipeline(collector: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    caller = hooks.HookCaller()
    caller.register(Tracing(), "infer-tracing-otel/tracing")
    caller.call("infer_engine_started", model="tiny", facts={})
    made = outputs.TextPipeline(Engine(), None, CARD, LIMITS, notify=caller.call)
    made.end = lambda: caller.call("infer_shutdown")
    return made


def sent(collector: Any) -> list[dict[str, Any]]:
    return [
        {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}
        for span in collector.spans
    ]


async def test_each_choice_is_a_span_with_what_it_did(pipeline: Any, collector: Any) -> None:
    sampling = SamplingParams(n=2, max_tokens=3, temperature=0.5, seed=11)
    events = pipeline.stream([Rendered((1, 2, 3))], sampling, request_id="cmpl-9", client_id="mine")
    await pipeline.collect(events)
    pipeline.end()
    assert [span.name for span in collector.spans] == ["text_completion tiny"] * 2
    found = sent(collector)
    assert {each["gen_ai.request.seed"] for each in found} == {11, 12}
    for each in found:
        assert (each["gen_ai.response.id"], each["infer.client.request_id"]) == ("cmpl-9", "mine")
        assert (each["gen_ai.usage.input_tokens"], each["gen_ai.usage.output_tokens"]) == (3, 3)
        assert [value.string_value for value in each["gen_ai.response.finish_reasons"].values] == ["length"]
        assert each["infer.queue_time"] == 0.002
        assert 0.005 < each["gen_ai.server.time_per_output_token"] < 1
    for span in collector.spans:
        first_step, first_token = span.events
        assert (first_step.name, first_token.name) == ("first_step", "first_token")
        assert span.start_time_unix_nano < first_step.time_unix_nano < first_token.time_unix_nano
        assert first_token.time_unix_nano < span.end_time_unix_nano


async def test_a_refused_request_is_a_span_with_the_errors_code(pipeline: Any, collector: Any) -> None:
    with pytest.raises(RequestError):
        await pipeline.collect(pipeline.stream([Rendered((1,))], SamplingParams(max_tokens=3), request_id="cmpl-1"))
    pipeline.end()
    ((found,), (span,)) = sent(collector), collector.spans
    assert found["error.type"] == "queue_full"
    assert span.status.message == "4 sequences wait already"
    assert [value.string_value for value in found["gen_ai.response.finish_reasons"].values] == ["rejected"]


async def test_a_client_that_leaves_ends_its_span(pipeline: Any, collector: Any) -> None:
    events = pipeline.stream([Rendered((1, 2))], SamplingParams(max_tokens=9), request_id="chatcmpl-1")
    await anext(events)
    await events.aclose()
    pipeline.end()
    ((found,), (span,)) = sent(collector), collector.spans
    assert span.name == "chat tiny"
    assert [value.string_value for value in found["gen_ai.response.finish_reasons"].values] == ["abort"]
    assert "error.type" not in found
