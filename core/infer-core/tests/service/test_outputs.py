from __future__ import annotations

import asyncio
import dataclasses
import json
from contextlib import aclosing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer_api.errors import EngineDeadError, RequestError
from infer_api.requests import RowError, SamplingParams
from infer_api.services import Finished, Rendered, TextDelta, Usage
from infer_tokenizer_json.tokenizer import JsonTokenizer


async def events_of(pipeline, prompts, **fields) -> list:
    params = pipeline.check(prompts, SamplingParams(**fields))
    return [event async for event in pipeline.stream(prompts, params, request_id="client-id")]


async def reply_of(pipeline, prompts, **fields):
    params = pipeline.check(prompts, SamplingParams(**fields))
    return await pipeline.collect(pipeline.stream(prompts, params, request_id="client-id"))


def one_by_one(ids) -> list[list[int]]:
    return [[token_id] for token_id in ids]


async def test_text_streams_and_the_reply_is_the_stream_joined(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    ids = byte_tokenizer.encode(" héllo wörld")
    engine = scripted_engine(script(one_by_one(ids)), script(one_by_one(ids)))
    events = await events_of(pipeline(engine), [prompt("say")])
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == " héllo wörld"
    assert len(texts) > 3
    assert events[-2:] == [Finished(0, "length"), Usage(len(prompt("say").prompt_ids), len(ids))]
    reply = await reply_of(pipeline(engine), [prompt("say")])
    assert reply.choices[0].text == " héllo wörld"
    assert reply.choices[0].token_ids == tuple(ids)
    assert (reply.choices[0].finish_reason, reply.choices[0].stop_reason) == ("length", None)


async def test_eos_ends_with_stop_and_is_in_ids_and_usage_but_not_in_text(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    ids = byte_tokenizer.encode("mat")
    for shown in (True, False):
        engine = scripted_engine(script([[*ids, 1, 5]]))
        reply = await reply_of(pipeline(engine), [prompt("a")], skip_special_tokens=shown, logprobs=0)
        choice = reply.choices[0]
        assert (choice.text, choice.finish_reason, choice.stop_reason) == ("mat", "stop", None)
        assert choice.token_ids == (*ids, 1)
        assert [token.token_id for token in choice.tokens] == ids
        assert reply.usage.completion_tokens == len(ids) + 1


async def test_a_stop_token_id_is_the_stop_reason(pipeline, scripted_engine, script, byte_tokenizer, prompt):
    ids = byte_tokenizer.encode("the cat")
    steps = one_by_one(ids)
    reply = await reply_of(pipeline(scripted_engine(script(steps))), [prompt("a")], stop_token_ids=(ids[-1],))
    choice = reply.choices[0]
    assert (choice.finish_reason, choice.stop_reason) == ("stop", ids[-1])
    assert choice.text == byte_tokenizer.decode(ids[:-1])
    included = await reply_of(
        pipeline(scripted_engine(script(steps))),
        [prompt("a")],
        stop_token_ids=(ids[-1],),
        include_stop_str_in_output=True,
    )
    assert included.choices[0].text == "the cat"


@pytest.mark.parametrize("steps_of", [one_by_one, lambda ids: [ids]])
async def test_a_stop_string_cuts_text_tokens_and_usage_and_aborts_the_rest(
    pipeline, scripted_engine, script, byte_tokenizer, prompt, steps_of
):
    """B19: over token borders, for every choice; the stream equals the reply."""
    full = "Seven green bottles hang on the wall"
    ids = [token_id for char in full for token_id in byte_tokenizer.encode(char)]
    scripts = [script(steps_of(ids), end=None) for _ in range(4)]
    engine = scripted_engine(*scripts)
    pipe = pipeline(engine)
    events = await events_of(pipe, [prompt("x")], n=2, stop=("een bot",), logprobs=0)
    for index in (0, 1):
        assert "".join(e.text for e in events if isinstance(e, TextDelta) and e.index == index) == "Seven gr"
    reply = await reply_of(pipe, [prompt("x")], n=2, stop=("een bot",), logprobs=0)
    through_match = len("Seven green bot")
    for choice in reply.choices:
        assert (choice.text, choice.finish_reason, choice.stop_reason) == ("Seven gr", "stop", "een bot")
        assert "".join(token.text for token in choice.tokens) == "Seven gr"
        assert choice.token_ids == tuple(ids[:through_match])
    assert reply.usage.completion_tokens == 2 * through_match
    assert len(engine.aborted) == 4
    assert engine.running == set()


@pytest.mark.parametrize(
    ("pieces", "stop", "text"),
    [(["tea", "?"], "?!", "tea?"), (["a", "b"], "abc", "ab"), (["aX", "Yb"], "XY", "a"), (list("aaab"), "aab", "a")],
)
async def test_held_back_text_is_flushed_once_at_the_end(
    pipeline, scripted_engine, script, byte_tokenizer, prompt, pieces, stop, text
):
    """B20."""
    steps = [byte_tokenizer.encode(piece) for piece in pieces]
    for ended in (script(steps), script([*steps, [1]])):
        engine = scripted_engine(ended, ended)
        events = await events_of(pipeline(engine), [prompt("x")], stop=(stop,), logprobs=0)
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
        reply = await reply_of(pipeline(engine), [prompt("x")], stop=(stop,), logprobs=0)
        assert reply.choices[0].text == text


async def test_text_held_for_a_stop_string_keeps_its_reported_tokens_back_too(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    steps = [byte_tokenizer.encode(char) for char in "xaby"]
    events = await events_of(pipeline(scripted_engine(script(steps))), [prompt("x")], stop=("abc",), logprobs=0)
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert [(d.text, "".join(t.text for t in d.tokens)) for d in deltas] == [("x", "x"), ("aby", "aby")]


async def test_half_a_character_at_the_end_is_flushed_as_a_replacement(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    ids = byte_tokenizer.encode("\U0001f600")[:3]
    reply = await reply_of(pipeline(scripted_engine(script(one_by_one(ids)))), [prompt("x")])
    assert reply.choices[0].text == "\ufffd"
    assert reply.choices[0].token_ids == tuple(ids)


@pytest.mark.parametrize("logprobs", [0, 2])
async def test_every_token_is_reported_with_text_bytes_and_top(
    pipeline, scripted_engine, script, byte_tokenizer, prompt, logprobs
):
    """B13: logprobs without alternatives is a full report with empty tops."""
    ids = byte_tokenizer.encode("é!")
    top = [(ids[0], -0.1), (ids[1], -2.0)][:logprobs]
    engine = scripted_engine(script(one_by_one(ids), logprob=-0.25, top=top))
    (choice,) = (await reply_of(pipeline(engine), [prompt("x")], logprobs=logprobs)).choices
    assert [token.token_id for token in choice.tokens] == ids
    assert b"".join(bytes(token.bytes) for token in choice.tokens) == "é!".encode()
    assert all(token.logprob == -0.25 for token in choice.tokens)
    assert all([one.logprob for one in token.top] == [value for _, value in top] for token in choice.tokens)


@pytest.mark.parametrize("impossible", [float("-inf"), float("nan"), -1e30])
async def test_minus_infinity_is_floored_so_that_json_can_say_it(
    pipeline, scripted_engine, script, byte_tokenizer, prompt, impossible
):
    """B14."""
    ids = byte_tokenizer.encode("a")
    engine = scripted_engine(script([ids], logprob=impossible, top=[(5, impossible), (6, -0.5)]))
    (choice,) = (await reply_of(pipeline(engine), [prompt("x")], logprobs=2)).choices
    values = [choice.tokens[0].logprob, *(one.logprob for one in choice.tokens[0].top)]
    assert values == [-9999.0, -9999.0, -0.5]
    json.dumps(values, allow_nan=False)


async def test_ids_beyond_the_tokenizer_give_no_text_and_no_error(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    """B74."""
    padded = byte_tokenizer.vocab_size + 3
    engine = scripted_engine(script([byte_tokenizer.encode("a"), [padded]], top=[(padded, -0.1), (5, -0.2)]))
    (choice,) = (await reply_of(pipeline(engine), [prompt("x")], logprobs=2)).choices
    assert choice.text == "a"
    assert (choice.tokens[1].text, choice.tokens[1].bytes) == ("", ())
    assert [one.token_id for one in choice.tokens[0].top] == [5]
    assert engine.requests[0].vocab_size == byte_tokenizer.vocab_size


async def test_prompts_times_choices_are_indexed_prompt_by_prompt(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    """B64, and B23: one usage, prompt tokens once per prompt."""
    prompts = [prompt("A long prompt about cats", "prompt[0]"), prompt("B", "prompt[1]"), prompt("C", "prompt[2]")]
    scripts = {
        each.prompt_ids: script(one_by_one(byte_tokenizer.encode(word)) * repeat, cached=repeat)
        for each, word, repeat in zip(prompts, ("x", "y", "z"), (9, 1, 2), strict=True)
    }
    engine = scripted_engine(by_prompt=scripts)
    events = await events_of(pipeline(engine), prompts, n=2)
    assert sorted(event.index for event in events if isinstance(event, Finished)) == [0, 1, 2, 3, 4, 5]
    assert [event for event in events if isinstance(event, Usage)] == [events[-1]]
    assert events[-1] == Usage(sum(len(p.prompt_ids) for p in prompts), 2 * (9 + 1 + 2), 9 + 1 + 2)
    reply = await reply_of(pipeline(engine), prompts, n=2)
    assert [(choice.index, choice.text) for choice in reply.choices] == [
        (0, "x" * 9), (1, "x" * 9), (2, "y"), (3, "y"), (4, "zz"), (5, "zz"),
    ]  # fmt: skip


async def test_exactly_one_finish_per_choice_and_it_is_the_last_of_the_choice(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    """B25."""
    ids = byte_tokenizer.encode("cat sat")
    ends = [script([ids]), script([[*ids, 1]]), script([ids], end="abort"), script(one_by_one(ids))]
    events = await events_of(pipeline(scripted_engine(*ends)), [prompt("x")], n=4, stop=("sat",))
    for index in range(4):
        own = [event for event in events if not isinstance(event, Usage) and event.index == index]
        assert [isinstance(event, Finished) for event in own] == [False] * (len(own) - 1) + [True]


async def test_requests_carry_resolved_lengths_seeds_and_ids_of_our_own(pipeline, scripted_engine, script, prompt):
    engine = scripted_engine(*(script([[5]]) for _ in range(8)))
    pipe = pipeline(engine)
    prompts = [prompt("ab", "prompt[0]"), prompt("abc def", "prompt[1]")]
    await events_of(pipe, prompts, n=2, seed=10)
    await events_of(pipe, prompts, n=2, max_tokens=3)
    first, second = engine.requests[:4], engine.requests[4:]
    assert [request.sampling.seed for request in first] == [10, 11, 10, 11]
    assert [request.sampling.max_tokens for request in first] == [64 - len(p.prompt_ids) for p in prompts for _ in "ab"]
    assert len({request.sampling.seed for request in second}) == 4, "each draws its own"
    assert {request.sampling.max_tokens for request in second} == {3}
    assert all(request.sampling.n == 1 and request.eos_ids == (1,) for request in engine.requests)
    ids = {request.request_id for request in engine.requests}
    assert len(ids) == 8
    assert not any("client-id" in one for one in ids)


async def test_the_configured_seed_is_for_requests_without_one(pipeline, scripted_engine, script, prompt):
    engine = scripted_engine(script([[5]]), script([[5]]), script([[5]]))
    pipe = pipeline(engine, seed=2**63 - 1)
    await events_of(pipe, [prompt("a")], n=2)
    await events_of(pipe, [prompt("a")], seed=4)
    assert [request.sampling.seed for request in engine.requests] == [2**63 - 1, 0, 4]


async def test_a_client_may_use_one_id_twice_at_once(pipeline, scripted_engine, script, byte_tokenizer, prompt):
    """B53."""
    prompts = [prompt("one"), prompt("two")]
    scripts = {p.prompt_ids: script(one_by_one(byte_tokenizer.encode(f"{p.text} answer"))) for p in prompts}
    pipe = pipeline(scripted_engine(by_prompt=scripts))
    replies = await asyncio.gather(*(reply_of(pipe, [p]) for p in prompts))
    assert [reply.choices[0].text for reply in replies] == ["one answer", "two answer"]


async def test_an_engine_error_ends_the_request_with_500_and_aborts_its_other_choices(
    pipeline, scripted_engine, script, prompt
):
    engine = scripted_engine(
        script([[5], [5], []], end="error", error=RowError("NaN in the scores")), script([[5]], end=None)
    )
    with pytest.raises(RequestError, match="NaN in the scores") as caught:
        await events_of(pipeline(engine), [prompt("x")], n=2)
    assert (caught.value.status, caught.value.code) == (500, "generation_failed")
    assert engine.running == set()
    assert engine.requests[1].request_id in engine.aborted


async def test_a_dead_engine_is_an_engine_dead_error(pipeline, scripted_engine, script, prompt):
    for n in (1, 2):
        engine = scripted_engine(script([[5]], dies="it crashed"), script([[5]], end=None))
        with pytest.raises(EngineDeadError, match="it crashed"):
            await events_of(pipeline(engine), [prompt("x")], n=n)
        assert engine.running == set()


@pytest.mark.parametrize("n", [1, 3])
async def test_closing_the_stream_aborts_every_choice(pipeline, scripted_engine, script, prompt, n):
    engine = scripted_engine(*(script([[5], [6]], end=None) for _ in range(n)))
    pipe = pipeline(engine)
    prompts = [prompt("x")]
    async with aclosing(pipe.stream(prompts, pipe.check(prompts, SamplingParams(n=n)), request_id="r")) as events:
        await anext(events)
    assert engine.running == set()
    assert len(engine.aborted) == n


async def test_a_cancelled_reader_aborts_every_choice(pipeline, scripted_engine, script, prompt):
    engine = scripted_engine(script([[5]], end=None), script([[5]], end=None))
    task = asyncio.ensure_future(reply_of(pipeline(engine), [prompt("x")], n=2))
    while len(engine.running) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.running == set()


async def test_hooks_hear_of_every_choice_once_however_it_ends(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
):
    heard: list[tuple[str, dict]] = []
    engine = scripted_engine(script([byte_tokenizer.encode("cat")]), script([[5]], end="error"))
    with pytest.raises(RequestError):
        await events_of(pipeline(engine, notify=lambda hook, **facts: heard.append((hook, facts))), [prompt("x")], n=2)
    received = [facts for hook, facts in heard if hook == "infer_request_received"]
    finished = [facts for hook, facts in heard if hook == "infer_request_finished"]
    assert [facts["num_prompt_tokens"] for facts in received] == [1, 1]
    assert [facts["request_id"] for facts in received] == [facts["request_id"] for facts in finished]
    assert finished[1]["finish_reason"] == "error"


async def test_a_continuation_keeps_the_first_space_of_a_sentencepiece_tokenizer(
    pipeline, scripted_engine, script, sentencepiece, source_of
):
    tokenizer = JsonTokenizer(source_of(sentencepiece, bos_id=1))
    ids = tokenizer.encode("the cat", special=False)
    for last, text in ((ids[-1], " the cat"), (1, "the cat")):
        pipe = pipeline(scripted_engine(script(one_by_one(ids))), tokenizer=tokenizer)
        assert (await reply_of(pipe, [Rendered((1, last))])).choices[0].text == text


async def test_without_a_tokenizer_ids_stream_and_text_is_empty(pipeline, scripted_engine, script):
    pipe = pipeline(scripted_engine(script([[5], [6, 7]])), tokenizer=None)
    events = await events_of(pipe, [Rendered((3,))], logprobs=0, stop=("x",))
    assert [event.token_ids for event in events if isinstance(event, TextDelta)] == [(5,), (6, 7)]
    assert {event.text for event in events if isinstance(event, TextDelta)} == {""}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_cut_into_steps_gives_the_same_reply(pipeline, scripted_engine, script, byte_tokenizer, prompt, data):
    text = data.draw(st.text("abc é\U0001f600", max_size=12))
    ids = byte_tokenizer.encode(text) or [5]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    steps = [ids[a:b] for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    stop = tuple(data.draw(st.lists(st.text("abc", min_size=1, max_size=3), max_size=2)))

    def run(how):
        return asyncio.run(
            reply_of(pipeline(scripted_engine(script(how))), [prompt("x")], stop=stop, logprobs=0, max_tokens=60)
        )

    assert run(steps) == run([ids]) == run(one_by_one(ids))


def test_stop_ids_and_min_tokens_that_leave_no_token_are_refused(
    pipeline, scripted_engine, prompt, card, limits
) -> None:
    """Id 1, the end of text, is forbidden too unless it is ignored."""
    ids = tuple(each for each in range(card.vocab_size) if each != 1)
    check = pipeline(scripted_engine(), limits=dataclasses.replace(limits, max_token_ids=len(ids))).check
    with pytest.raises(RequestError, match="forbids every token") as caught:
        check([prompt("a")], SamplingParams(min_tokens=1, stop_token_ids=ids))
    assert (caught.value.status, caught.value.param) == (400, "stop_token_ids")
    assert check([prompt("a")], SamplingParams(min_tokens=1, stop_token_ids=ids, ignore_eos=True)).min_tokens == 1
    assert check([prompt("a")], SamplingParams(stop_token_ids=ids)).stop_token_ids == ids


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"allowed_token_ids": (1,)}, "allow another token, or send ignore_eos"),
        ({"allowed_token_ids": (1,), "stop_token_ids": (7,)}, "allow another token, or send ignore_eos"),
        ({"allowed_token_ids": (1, 7), "stop_token_ids": (7,)}, "send fewer stop_token_ids"),
        ({"allowed_token_ids": (1,), "stop_token_ids": (1,), "ignore_eos": True}, "send fewer stop_token_ids"),
    ],
)
def test_the_advice_on_impossible_min_tokens_speaks_of_what_is_at_fault(
    pipeline, scripted_engine, prompt, fields, advice
) -> None:
    """Id 1 is the end of text."""
    with pytest.raises(RequestError, match=f"; {advice}$") as caught:
        pipeline(scripted_engine()).check([prompt("a")], SamplingParams(min_tokens=2, **fields))
    assert caught.value.param == "allowed_token_ids"
