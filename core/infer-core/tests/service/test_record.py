from __future__ import annotations

import asyncio
import dataclasses
from contextlib import aclosing

import pytest

from infer_api.errors import EngineDeadError, RequestError
from infer_api.requests import RowError, SamplingParams


class Heard:
    """What hooks were told."""

    def __init__(self) -> None:
        self.received: list[dict] = []
        self.records: list = []

    def __call__(self, hook: str, **facts) -> None:
        if hook == "infer_request_received":
            self.received.append(facts)
            return
        record = facts.pop("record")
        assert facts == {
            "request_id": record.request_id,
            "finish_reason": record.finish_reason,
            "num_generated_tokens": record.num_generated_tokens,
        }
        self.records.append(record)


@pytest.fixture
def run(pipeline, prompt):
    """Streams a request with a client's id; gives what hooks heard, once the stream has ended."""

    async def go(engine, *, take: int | None = None, tokenizer=None, **fields) -> Heard:
        heard = Heard()
        pipe = pipeline(engine, notify=heard, **({"tokenizer": tokenizer} if tokenizer else {}))
        prompts = [prompt("hello")]
        events = pipe.stream(
            prompts, pipe.check(prompts, SamplingParams(**fields)), request_id="cmpl-1", client_id="mine"
        )
        try:
            async with aclosing(events):
                number = 0
                async for _ in events:
                    number += 1
                    if number == take:
                        break
        except (RequestError, EngineDeadError) as error:
            heard.error = error
        assert engine.running.isdisjoint(one["request_id"] for one in heard.received)
        assert [one.request_id for one in heard.records] == [one["request_id"] for one in heard.received]
        return heard

    return go


async def test_a_record_tells_ids_counts_and_times(run, scripted_engine, script, byte_tokenizer) -> None:
    ids = [byte_tokenizer.encode(char)[0] for char in "abcd"]
    steps = [ids[:1], ids[1:3], ids[3:]]
    heard = await run(scripted_engine(script(steps, cached=2)), seed=4)
    (record,) = heard.records
    assert (record.call_id, record.client_id, record.model) == ("cmpl-1", "mine", "tiny")
    assert (record.finish_reason, record.error) == ("length", None)
    counts = (record.num_prompt_tokens, record.num_cached_tokens, record.num_generated_tokens)
    assert counts == (len(byte_tokenizer.encode("hello")), 2, 4)
    assert record.queued_s == 0.25
    assert len(record.gaps_s) == 2, "tokens that came together share one"
    assert 0 < record.first_token_s <= record.first_token_s + sum(record.gaps_s) <= record.total_s < 5
    assert record.sampling.seed == 4
    assert record.arrival_s > 1.7e9


async def test_a_choice_is_told_of_when_it_ends_and_only_once(run, scripted_engine, script) -> None:
    heard = await run(scripted_engine(script([[5]]), script([[5], [1]])), n=2)
    assert [record.finish_reason for record in heard.records] == ["length", "stop"]


async def test_a_client_that_leaves_aborts_what_has_not_ended(run, scripted_engine, script) -> None:
    heard = await run(scripted_engine(script([[40]]), script([[40], [41]], end=None)), n=2, take=3)
    reasons = sorted(record.finish_reason for record in heard.records)
    assert reasons == ["abort", "length"]
    assert all(record.error is None for record in heard.records)


async def test_what_the_engine_refuses_is_rejected_with_its_status(run, scripted_engine, script) -> None:
    full = RequestError("too many wait", code="queue_full", status=503, retry_after_s=2.0)
    for n in (1, 2):
        heard = await run(scripted_engine(*[script([], refusal=full)] * n), n=n)
        assert heard.error is full
        assert [record.finish_reason for record in heard.records] == ["rejected"] * n
        assert {record.error for record in heard.records} == {("queue_full", "too many wait")}
        assert {record.first_token_s for record in heard.records} == {None}


@pytest.mark.parametrize(
    ("error", "status", "code", "message"),
    [
        (RowError("NaN in the scores"), 500, "generation_failed", "generation failed: NaN in the scores"),
        (RowError("nothing is allowed", "impossible", 400), 400, "impossible", "nothing is allowed"),
        (None, 500, "generation_failed", "generation failed: the engine gave no reason"),
    ],
)
async def test_a_row_error_keeps_its_status_and_code(run, scripted_engine, script, error, status, code, message):
    """B11 and B58."""
    heard = await run(scripted_engine(script([[5], []], end="error", error=error)))
    assert (heard.error.status, heard.error.code, heard.error.message) == (status, code, message)
    (record,) = heard.records
    assert (record.finish_reason, record.error, record.num_generated_tokens) == ("error", (code, message), 1)


async def test_a_dead_engine_is_an_error(run, scripted_engine, script) -> None:
    heard = await run(scripted_engine(script([[5]], dies="killed")))
    assert heard.records[0].finish_reason == "error"
    assert heard.records[0].error == ("engine_dead", "killed")


class FailingDecoder:
    """Raises at one token."""

    def __init__(self, inner, at: int) -> None:
        self.inner, self.at = inner, at

    def feed(self, token_id: int) -> str:
        if token_id == self.at:
            raise KeyError("secret of the tokenizer")
        return self.inner.feed(token_id)

    def finish(self) -> str:
        return self.inner.finish()


@dataclasses.dataclass
class FailingTokenizer:
    inner: object
    at: int

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def stream(self, skip_special: bool = True):
        return FailingDecoder(self.inner.stream(skip_special), self.at)


@pytest.mark.parametrize("place", ["prompt", "text"])
async def test_a_tokenizer_that_raises_ends_that_request_alone_with_500(
    run, pipeline, prompt, scripted_engine, script, byte_tokenizer, caplog, place
) -> None:
    bad = byte_tokenizer.encode("Z" if place == "text" else "hello")[-1]
    engine = scripted_engine(script([[40], [bad], [41]], end=None), script([[40], [41]]))
    tokenizer = FailingTokenizer(byte_tokenizer, bad)
    pipe = pipeline(engine, tokenizer=tokenizer)
    neighbour = pipe.stream([prompt("ab")], pipe.check([prompt("ab")], SamplingParams()), request_id="other")
    heard, reply = await asyncio.gather(run(engine, tokenizer=tokenizer), pipe.collect(neighbour))
    assert reply.choices[0].finish_reason == "length"
    assert (heard.error.status, heard.error.code) == (500, "internal_error")
    assert "secret" not in heard.error.message
    assert "secret of the tokenizer" in caplog.text
    (record,) = heard.records
    assert record.finish_reason == "error"
    assert record.error[0] == "internal_error"
    assert record.request_id in engine.aborted
