"""Prompts with scores, over the real pipeline and small tokenizers; only the engine is a fake."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import httpx
import pytest

from infer_api.requests import EngineOutput, EngineRequest, RowError, TokenLogprobs
from infer_api.services import Services
from infer_openai.routes import OpenAIRoutes

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
CHUNK = 3


class ScoringEngine:
    """Generates `answer` and scores what it is asked to: of token id t, -t/100, with t and t + 1 as the likeliest."""

    def __init__(self, answer: list[int]) -> None:
        self.answer = answer
        self.requests: list[EngineRequest] = []
        self.fails_after: int | None = None
        self.failure = RowError("no token is allowed", "impossible", 400)

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        self.requests.append(request)
        sampling, name = request.sampling, request.request_id
        if sampling.prompt_logprobs is not None:
            scores = [None, *(_scored(each, sampling.prompt_logprobs) for each in request.prompt_ids[1:])]
            for at in range(0, len(scores), CHUNK):
                is_end = sampling.max_tokens == 0 and at + CHUNK >= len(scores)
                yield EngineOutput(
                    request_id=name,
                    prompt_logprobs=scores[at : at + CHUNK],
                    finish_reason="length" if is_end else None,
                    num_cached_tokens=2,
                )
        answer = self.answer[: sampling.max_tokens]
        for at, token_id in enumerate(answer):
            if at == self.fails_after:
                yield EngineOutput(request_id=name, finish_reason="error", error=self.failure)
                return
            yield EngineOutput(
                request_id=name,
                token_ids=[token_id],
                logprobs=None if sampling.logprobs is None else [_scored(token_id, sampling.logprobs)],
                finish_reason="length" if at + 1 == len(answer) else None,
            )


def _scored(token_id: int, count: int) -> TokenLogprobs:
    top = [token_id, token_id + 1, token_id + 2][:count]
    return TokenLogprobs(token_id, -token_id / 100, top, [-each / 100 for each in top])


@dataclasses.dataclass
class Served:
    """The app over one tokenizer, and what a request gives in both forms."""

    client: httpx.AsyncClient
    engine: ScoringEngine
    tokenizer: Any

    async def whole(self, path: str = COMPLETIONS, **body: Any) -> dict[str, Any]:
        reply = await self.client.post(path, json=body)
        assert reply.status_code == 200, reply.text
        return json.loads(reply.text, parse_constant=pytest.fail)

    async def streamed(self, path: str = COMPLETIONS, **body: Any) -> dict[int, dict[str, Any]]:
        """Chunks of each choice, joined: text, arrays of the report, scores of the prompt."""
        reply = await self.client.post(path, json={**body, "stream": True})
        assert reply.status_code == 200, reply.text
        lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        joined: dict[int, dict[str, Any]] = {}
        for choice in (choice for line in lines[:-1] for choice in json.loads(line)["choices"]):
            into = joined.setdefault(choice["index"], {"text": "", "logprobs": {}, "prompt_logprobs": []})
            into["text"] += choice.get("text", "") + choice.get("delta", {}).get("content", "")
            into["prompt_logprobs"] += choice.get("prompt_logprobs", [])
            for key, values in (choice["logprobs"] or {}).items():
                into["logprobs"].setdefault(key, []).extend(values or [])
        return joined


@pytest.fixture
async def serve(parts: Any) -> AsyncIterator[Callable[..., Served]]:
    """Makes a Served whose model answers `answer`; `kind` is of tokenizers."""
    make_app = pytest.importorskip("infer_server.app").make_app
    pipeline = pytest.importorskip("infer.service.outputs").TextPipeline
    text_renderer = pytest.importorskip("infer.service.renderer").TextRenderer
    template = pytest.importorskip("infer.text.chat_template").ChatTemplate
    small = pytest.importorskip("infer_testkit.small_tokenizers")
    tokenizer_class = pytest.importorskip("infer_tokenizer_json.tokenizer").JsonTokenizer
    base, limits, guard = parts
    opened: list[httpx.AsyncClient] = []

    def make(answer: str = " ok", kind: str = "sentencepiece", **fields: Any) -> Served:
        made = getattr(small, f"{kind}_tokenizer")()
        tokenizer = tokenizer_class(small.tokenizer_source(made, bos_id=1 if kind == "sentencepiece" else None))
        card = dataclasses.replace(base, vocab_size=tokenizer.vocab_size)
        if kind == "sentencepiece":  # which puts the first space there itself
            engine = ScoringEngine(tokenizer.encode(answer.removeprefix(" "), special=False))
        else:
            engine = ScoringEngine([tokenizer.encode(char)[0] for char in answer])
        services = Services(
            engine=engine,
            renderer=text_renderer(
                tokenizer, template({"default": "{{ messages[0].content }}"}, {}, "test"), card.vocab_size, 64
            ),
            outputs=pipeline(engine, tokenizer, card, limits, **fields),
            models=(card,),
            guard=guard,
            limits=limits,
            version="0",
            fingerprint="fp",
        )
        app = make_app(services, [OpenAIRoutes(None).router(services)])
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        opened.append(httpx.AsyncClient(transport=transport, base_url="http://server"))
        return Served(opened[-1], engine, tokenizer)

    yield make
    for client in opened:
        await client.aclose()


@pytest.mark.parametrize("kind", ["sentencepiece", "byte_level"])
@pytest.mark.parametrize("max_tokens", [0, 1, 3])
async def test_b16_echo_with_logprobs_scores_the_prompt(
    serve: Callable[..., Served], kind: str, max_tokens: int
) -> None:
    served = serve(kind=kind)
    prompt = "q. the cat, a"
    body = {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": max_tokens}
    reply = await served.whole(**body)
    (choice,) = reply["choices"]
    ids = served.tokenizer.encode(prompt)
    answer = served.engine.answer[:max_tokens]
    assert reply["usage"]["prompt_tokens"] == len(ids)
    assert reply["usage"]["completion_tokens"] == len(answer)
    assert reply["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert choice["text"] == prompt + " ok"[:max_tokens]
    assert choice["finish_reason"] == "length"
    report = choice["logprobs"]
    assert {len(values) for values in report.values()} == {len(ids) + len(answer)}
    assert report["token_logprobs"] == [None, *(-each / 100 for each in [*ids, *answer][1:])]
    assert report["top_logprobs"][0] is None
    assert all(len(top) == 1 for top in report["top_logprobs"][1:])
    assert report["tokens"] == [served.tokenizer.token_bytes(each).decode() for each in [*ids, *answer]]
    assert (await served.streamed(**body))[0] == {
        "text": choice["text"], "logprobs": report, "prompt_logprobs": [],
    }  # fmt: skip


async def test_b16_a_prompt_may_fill_the_model_when_it_is_only_scored(serve: Callable[..., Served]) -> None:
    served = serve()
    reply = await served.whole(prompt=[300 % 256] * 64, echo=True, logprobs=0, max_tokens=0)
    assert len(reply["choices"][0]["logprobs"]["tokens"]) == 64
    refused = await served.client.post(COMPLETIONS, json={"prompt": [44] * 64, "echo": True, "logprobs": 0})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 0, "logprobs": 1}, "max_tokens"),
        ({"max_tokens": 0, "echo": True, "n": 2}, "n"),
        ({"prompt_logprobs": 6}, "prompt_logprobs"),
        ({"echo": True, "logprobs": 6}, "logprobs"),
        ({"bad_words": [" "]}, "bad_words"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"priority": 1}, "priority"),
        ({"logits_processors": {"nobody": {}}}, "logits_processors.nobody"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_b26_what_cannot_be_is_a_plain_400_that_names_the_field(
    serve: Callable[..., Served], body: dict[str, Any], param: str, stream: bool
) -> None:
    """B08 and B10, too."""
    reply = await serve().client.post(COMPLETIONS, json={"prompt": "a", "stream": stream, **body})
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["error"]["param"] == param


async def test_an_echo_of_no_tokens_is_the_prompt(serve: Callable[..., Served]) -> None:
    reply = await serve().whole(prompt="the cat", echo=True, max_tokens=0)
    assert (reply["choices"][0]["text"], reply["choices"][0]["logprobs"]) == ("the cat", None)


@pytest.mark.parametrize("as_ids", [False, True])
async def test_b17_each_token_is_its_own_text_and_offsets_slice_the_text(
    serve: Callable[..., Served], as_ids: bool
) -> None:
    served = serve(answer=" tea 35\n")
    text = "\n\n2) tea: 35 é \U0001f600!"
    ids = served.tokenizer.encode(text)
    reply = await served.whole(prompt=ids if as_ids else text, echo=True, logprobs=1, max_tokens=8)
    (choice,) = reply["choices"]
    echoed = served.tokenizer.decode(ids, skip_special=False) if as_ids else text
    assert choice["text"] == f"{echoed} tea 35\n"
    report = choice["logprobs"]
    assert report["tokens"][:6] == ["<s>", " ", "\n", "\n", "2", ")"]
    offsets = report["text_offset"]
    assert offsets == sorted(offsets)
    slices = [choice["text"][start:end] for start, end in pairwise([*offsets, None])]
    assert "".join(slices) == choice["text"]
    whole = [(token, cut) for token, cut in zip(report["tokens"], slices, strict=True) if "�" not in token]
    shown = [(token, cut) for token, cut in whole if cut]
    assert all(token == cut for token, cut in shown)
    assert [token for token, cut in whole if not cut] == ([] if as_ids else ["<s>", " "])


async def test_several_prompts_and_choices_carry_their_own_scores(serve: Callable[..., Served]) -> None:
    """B23 and B64: the prompt's tokens count once per prompt."""
    served = serve(kind="byte_level")
    prompts = ["the cat sat", "a"]
    body = {"prompt": prompts, "echo": True, "logprobs": 0, "max_tokens": 2, "n": 2}
    reply = await served.whole(**body)
    ids = [served.tokenizer.encode(prompt) for prompt in prompts]
    assert reply["usage"]["prompt_tokens"] == sum(map(len, ids))
    assert reply["usage"]["completion_tokens"] == 8
    streamed = await served.streamed(**body)
    for at, choice in enumerate(reply["choices"]):
        assert choice["index"] == at
        assert choice["text"].startswith(prompts[at // 2])
        assert len(choice["logprobs"]["tokens"]) == len(ids[at // 2]) + 2
        assert streamed[at]["text"] == choice["text"]
        assert streamed[at]["logprobs"] == choice["logprobs"]


async def test_fewer_alternatives_than_were_computed_are_shown_where_fewer_were_asked_for(
    serve: Callable[..., Served],
) -> None:
    served = serve(kind="byte_level")
    body = {"prompt": "q!", "echo": True, "logprobs": 1, "prompt_logprobs": 3, "max_tokens": 1}
    (choice,) = (await served.whole(**body))["choices"]
    assert {len(top) for top in choice["logprobs"]["top_logprobs"][1:]} == {1}
    assert {len(scores) for scores in choice["prompt_logprobs"][1:]} == {3}
    streamed = (await served.streamed(**body))[0]
    assert streamed["prompt_logprobs"] == choice["prompt_logprobs"]


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
async def test_prompt_logprobs_are_an_array_of_each_choice(serve: Callable[..., Served], path: str) -> None:
    served = serve(kind="byte_level")
    asked = {"prompt": "cat!"} if path == COMPLETIONS else {"messages": [{"role": "user", "content": "cat!"}]}
    body = {**asked, "prompt_logprobs": 1, "max_tokens": 1, "n": 2}
    reply = await served.whole(path, **body)
    ids = served.tokenizer.encode("cat!")
    expected: list[Any] = [None]
    for token_id in ids[1:]:
        entry = {"logprob": -token_id / 100, "rank": 1, "decoded_token": served.tokenizer.decode([token_id])}
        expected.append({str(token_id): entry})
    assert [choice["prompt_logprobs"] for choice in reply["choices"]] == [expected, expected]
    assert {index: part["prompt_logprobs"] for index, part in (await served.streamed(path, **body)).items()} == {
        0: expected,
        1: expected,
    }
    assert "prompt_logprobs" not in (await served.whole(path, **asked))["choices"][0]


@pytest.mark.parametrize("fails_after", [0, 2])
@pytest.mark.parametrize("status", [400, 500])
async def test_b26_an_error_of_one_row_is_a_status_before_the_text_and_an_event_within(
    serve: Callable[..., Served], fails_after: int, status: int
) -> None:
    """B11 and B58."""
    served = serve()
    served.engine.fails_after = fails_after
    served.engine.failure = RowError("no token is allowed", "impossible", status)
    plain = await served.client.post(COMPLETIONS, json={"prompt": "a"})
    streamed = await served.client.post(COMPLETIONS, json={"prompt": "a", "stream": True})
    assert (plain.status_code, plain.json()["error"]["code"]) == (status, "impossible")
    if fails_after == 0:
        assert (streamed.status_code, streamed.json()) == (status, plain.json())
    else:
        last = [line for line in streamed.text.split("\n\n") if line][-1]
        assert json.loads(last.removeprefix("data: ")) == plain.json()


async def test_b56_the_salt_reaches_the_engine(serve: Callable[..., Served]) -> None:
    served = serve()
    for salt in ("x", "y", None):
        await served.whole(prompt="a", cache_salt=salt)
    assert [request.cache_salt for request in served.engine.requests] == ["x", "y", ""]
