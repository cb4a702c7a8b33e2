"""Prompts with scores, and restrictions that reach the engine."""

from __future__ import annotations

import asyncio

import pytest

from infer_api.errors import RequestError
from infer_api.requests import SamplingParams
from infer_api.services import Finished, PromptScored, Rendered, TextDelta, Usage
from infer_tokenizer_json.tokenizer import JsonTokenizer


async def events_of(pipe, prompts, **fields) -> list:
    return [each async for each in pipe.stream(prompts, pipe.check(prompts, SamplingParams(**fields)), request_id="r")]


@pytest.mark.parametrize("scored", [1, 3, 100])
async def test_the_whole_prompt_is_scored_before_the_text(
    pipeline, scripted_engine, script, byte_tokenizer, prompt, scored
) -> None:
    """B16: entries = prompt tokens, the first has no logprob."""
    asked = prompt("Seven green")
    ids = byte_tokenizer.encode(" ok")
    engine = scripted_engine(*[script([ids], scored=scored, top=[(40, -0.1)])] * 2)
    events = await events_of(pipeline(engine), [asked], prompt_logprobs=1, n=2)
    for index in (0, 1):
        first, *rest = [each for each in events if not isinstance(each, Usage) and each.index == index]
        assert isinstance(first, PromptScored)
        assert [token.token_id for token in first.tokens] == list(asked.prompt_ids)
        assert "".join(token.text for token in first.tokens) == "Seven green"
        assert [token.logprob for token in first.tokens] == [None] + [-0.5] * (len(asked.prompt_ids) - 1)
        assert [len(token.top) for token in first.tokens] == [0] + [1] * (len(asked.prompt_ids) - 1)
        assert not any(isinstance(each, PromptScored) for each in rest)


async def test_scoring_alone_generates_nothing(pipeline, scripted_engine, script, prompt) -> None:
    """B16."""
    asked = prompt("2+2")
    pipe = pipeline(scripted_engine(*[script([], scored=2)] * 2))
    events = await events_of(pipe, [asked], prompt_logprobs=0, max_tokens=0)
    assert events[1:] == [Finished(0, "length"), Usage(len(asked.prompt_ids), 0)]
    params = pipe.check([asked], SamplingParams(prompt_logprobs=0, max_tokens=0))
    (choice,) = (await pipe.collect(pipe.stream([asked], params, request_id="r"))).choices
    assert choice.prompt_tokens == events[0].tokens
    assert (choice.text, choice.token_ids) == ("", ())


async def test_a_prompt_that_ends_within_a_character_adds_none_of_it_to_no_text(
    pipeline, scripted_engine, script, sentencepiece, source_of
) -> None:
    tokenizer = JsonTokenizer(source_of(sentencepiece, bos_id=1))
    half = Rendered((1, 3 + 0xF0, 3 + 0x9F))
    events = await events_of(pipeline(scripted_engine(script([])), tokenizer=tokenizer), [half], **ONLY_SCORES)
    assert [each for each in events if isinstance(each, TextDelta)] == []


ONLY_SCORES = {"prompt_logprobs": 0, "max_tokens": 0}


async def test_b17_each_token_has_its_own_text_with_byte_fallback(
    pipeline, scripted_engine, script, sentencepiece, source_of
) -> None:
    tokenizer = JsonTokenizer(source_of(sentencepiece, bos_id=1))
    ids = tokenizer.encode("\n\n2) the cat")
    events = await events_of(
        pipeline(scripted_engine(script([])), tokenizer=tokenizer), [Rendered(tuple(ids))], **ONLY_SCORES
    )
    texts = [token.text for token in events[0].tokens]
    assert texts[:6] == ["<s>", " ", "\n", "\n", "2", ")"]
    assert "".join(texts) == "<s> \n\n2) the cat"
    assert all(token.bytes == (10,) for token in events[0].tokens if token.text == "\n")


async def test_scores_that_never_come_are_an_error(pipeline, scripted_engine, script, prompt) -> None:
    engine = scripted_engine(script([[5]]))
    engine._scores = lambda request, script: []
    with pytest.raises(RequestError, match=r"0 of \d+ tokens of the prompt were scored") as caught:
        await events_of(pipeline(engine), [prompt("a b")], prompt_logprobs=0)
    assert caught.value.status == 500


async def test_bad_words_send_the_vocabulary_once_before_the_request(
    pipeline, scripted_engine, script, byte_tokenizer, prompt
) -> None:
    engine = scripted_engine(*[script([[5]])] * 4)
    pipe = pipeline(engine)
    await events_of(pipe, [prompt("a")])
    assert engine.controls == []
    await asyncio.gather(*(events_of(pipe, [prompt("a")], bad_words=("cat",)) for _ in range(3)))
    ((name, args),) = engine.controls
    assert name == "set_vocabulary"
    assert len(args["tokens"]) == byte_tokenizer.vocab_size
    assert engine.requests[-1].sampling.bad_words == ("cat",)


def test_bad_words_without_a_tokenizer_are_refused(pipeline, scripted_engine) -> None:
    with pytest.raises(RequestError) as caught:
        pipeline(scripted_engine(), tokenizer=None).check([Rendered((3,))], SamplingParams(bad_words=("x",)))
    assert (caught.value.status, caught.value.param) == (400, "bad_words")


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_allowed_ids_that_all_end_the_text_contradict_min_tokens(pipeline, scripted_engine, prompt, ignore_eos) -> None:
    """B11. Id 1 is the end of text."""
    check = pipeline(scripted_engine()).check
    fields = {"min_tokens": 1, "allowed_token_ids": (1, 7), "ignore_eos": ignore_eos}
    with pytest.raises(RequestError) as caught:
        check([prompt("a")], SamplingParams(**fields, stop_token_ids=(1, 7)))
    assert (caught.value.status, caught.value.param) == (400, "allowed_token_ids")
    assert check([prompt("a")], SamplingParams(**fields, stop_token_ids=(8,))).min_tokens == 1
    assert check([prompt("a")], SamplingParams(**{**fields, "min_tokens": 0}, stop_token_ids=(1, 7)))


async def test_salt_and_priority_reach_the_engine_and_are_none_by_default(
    pipeline, scripted_engine, script, prompt
) -> None:
    """B56."""
    engine = scripted_engine(script([[5]]), script([[5]]))
    pipe = pipeline(engine, heeds_priority=True)
    await events_of(pipe, [Rendered((4, 5), priority=-3, cache_salt="x")])
    await events_of(pipe, [prompt("a")])
    assert [(one.cache_salt, one.priority) for one in engine.requests] == [("x", -3), ("", 0)]


def test_a_priority_that_nobody_heeds_is_refused(pipeline, scripted_engine) -> None:
    with pytest.raises(RequestError, match="--scheduling-policy") as caught:
        pipeline(scripted_engine()).check([Rendered((4,), priority=1)], SamplingParams())
    assert (caught.value.status, caught.value.param) == (400, "priority")
    assert pipeline(scripted_engine()).check([Rendered((4,))], SamplingParams()).n == 1


@pytest.mark.parametrize("end", ["length", "stop", "abort"])
async def test_b22_what_was_held_back_goes_the_same_road_at_the_end(
    pipeline, scripted_engine, script, byte_tokenizer, prompt, end
) -> None:
    """The decoder's tail still meets the stop strings, and the matcher's tail is text like any other."""
    text = "<think>x</think>Hi<|end|>"
    ids = [token for char in text for token in byte_tokenizer.encode(char)]
    smile = byte_tokenizer.encode("\U0001f600")
    for steps in ([[one] for one in ids], [ids], [ids[:7], ids[7:]]):
        events = await events_of(pipeline(scripted_engine(script(steps, end=end))), [prompt("x")], stop=("<|end|>!",))
        assert "".join(each.text for each in events if isinstance(each, TextDelta)) == text
        broken = [*steps, smile[:1]]
        events = await events_of(pipeline(scripted_engine(script(broken, end=end))), [prompt("x")], stop=(">\ufffd",))
        assert "".join(each.text for each in events if isinstance(each, TextDelta)) == text[:-1]
        assert events[-2] == Finished(0, "stop", ">\ufffd")
