"""Faults that other servers had (named B..), tried on ours over HTTP."""

from __future__ import annotations

import gzip
import json
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from served import serving
from tiny_llama import EOS_ID, FORBIDDEN_ID, NUM_TOKENS, write_tiny_llama

GREEDY = {"prompt": "Seven green bottles", "max_tokens": 24, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 8, "temperature": 0}


def strict_json(text: str) -> Any:
    """Parsed without the words that JSON does not have (NaN, Infinity)."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def complete(http: httpx.Client, **body: Any) -> httpx.Response:
    return http.post("/v1/completions", json=body)


def text_of(reply: httpx.Response) -> str:
    assert reply.status_code == 200, reply.text
    text: str = strict_json(reply.text)["choices"][0]["text"]
    return text


def error_of(reply: httpx.Response, status: int = 400) -> dict[str, Any]:
    """The OpenAI-shaped error of a refused request."""
    assert reply.status_code == status, reply.text
    error: dict[str, Any] = strict_json(reply.text)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


# -- B02, B04, B05, B07: what sampling parameters and prompts may be ------------------------------------------


@pytest.mark.parametrize("token_id", [NUM_TOKENS + 5, 10**6, -1])
def test_b02_a_stop_token_outside_the_vocabulary_is_refused_and_touches_no_neighbour(
    http: httpx.Client, token_id: int
) -> None:
    alone = text_of(complete(http, **GREEDY))
    with ThreadPoolExecutor(2) as pool:
        neighbour = pool.submit(complete, http, **GREEDY)
        refused = pool.submit(complete, http, **GREEDY, stop_token_ids=[token_id], min_tokens=3)
    assert error_of(refused.result())["param"] == "stop_token_ids"
    assert text_of(neighbour.result()) == alone


EMPTY_PROMPTS = [("", "prompt"), ([""], "prompt"), ([], "prompt"), (["a", ""], "prompt[1]")]


@pytest.mark.parametrize(("prompt", "param"), EMPTY_PROMPTS)
def test_b04_an_empty_prompt_is_refused_where_nothing_begins_texts(http: httpx.Client, prompt: Any, param: str) -> None:
    error = error_of(complete(http, prompt=prompt, max_tokens=2))
    assert error["param"] == param
    assert text_of(complete(http, **GREEDY))


@pytest.mark.parametrize("top_k", [0, -1, NUM_TOKENS, NUM_TOKENS + 1000, 2**31, 2**63])
def test_b05_a_top_k_that_limits_nothing_changes_nothing(http: httpx.Client, top_k: int) -> None:
    sampled = {"prompt": "abc", "max_tokens": 12, "temperature": 1.0, "seed": 11}
    assert text_of(complete(http, **sampled, top_k=top_k)) == text_of(complete(http, **sampled))


def test_b05_a_top_k_below_minus_one_is_refused(http: httpx.Client) -> None:
    assert error_of(complete(http, prompt="abc", top_k=-2))["param"] == "top_k"


@pytest.mark.parametrize("temperature", [1e-4, 1e-5, 1e-6, 1e-12, 1e-300])
def test_b07_a_tiny_temperature_is_greedy(http: httpx.Client, temperature: float) -> None:
    tiny = complete(http, **{**GREEDY, "temperature": temperature})
    assert text_of(tiny) == text_of(complete(http, **GREEDY))


@pytest.mark.parametrize("temperature", [1e-2, 1e-3])
def test_b07_a_small_temperature_gives_finite_probabilities(http: httpx.Client, temperature: float) -> None:
    reply = complete(http, **{**GREEDY, "temperature": temperature, "logprobs": 3})
    assert text_of(reply)


# -- B13, B14: logprobs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"top_logprobs": 0}])
def test_b13_logprobs_without_alternatives(http: httpx.Client, more: dict[str, int]) -> None:
    reply = http.post("/v1/chat/completions", json={**CHAT, "logprobs": True, **more})
    assert reply.status_code == 200, reply.text
    body = strict_json(reply.text)
    tokens = body["choices"][0]["logprobs"]["content"]
    assert len(tokens) == body["usage"]["completion_tokens"] > 0
    for token in tokens:
        assert token["logprob"] <= 0
        assert token["bytes"]
        assert token["top_logprobs"] == []


def test_b13_alternatives_without_logprobs_are_refused(http: httpx.Client) -> None:
    assert error_of(http.post("/v1/chat/completions", json={**CHAT, "top_logprobs": 2}))["param"] == "top_logprobs"


def test_b14_impossible_tokens_give_strict_json(http: httpx.Client) -> None:
    asked = {**CHAT, "logprobs": True, "top_logprobs": 5, "temperature": 1, "top_p": 0.1, "logit_bias": {"5": -100}}
    reply = http.post("/v1/chat/completions", json=asked)
    assert reply.status_code == 200, reply.text
    for token in strict_json(reply.text)["choices"][0]["logprobs"]["content"]:
        assert len(token["top_logprobs"]) == 5


def test_logprobs_stream_as_they_come_whole(http: httpx.Client) -> None:
    asked = {**CHAT, "logprobs": True, "top_logprobs": 2}
    whole = strict_json(http.post("/v1/chat/completions", json=asked).text)["choices"][0]["logprobs"]["content"]
    chunks, _ = streamed(http, "/v1/chat/completions", asked)
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    tokens = [token for part in parts if part for token in part["content"]]
    assert [token["bytes"] for token in tokens] == [token["bytes"] for token in whole]
    for ours, theirs in zip(tokens, whole, strict=True):
        assert ours["logprob"] == pytest.approx(theirs["logprob"], abs=1e-4)


# -- B25: ends of streams -------------------------------------------------------------------------------------


def streamed(http: httpx.Client, path: str, body: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Chunks of a stream, and its raw events."""
    reply = http.post(path, json={**body, "stream": True})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    return [strict_json(event) for event in events[:-1]], events


@pytest.mark.parametrize(
    ("more", "reason"),
    [({}, "length"), ({"logit_bias": {str(EOS_ID): 100}}, "stop"), ({"stop": ["a", "e", "i", "o", "s", "M"]}, "stop")],
    ids=["length", "end of sequence", "stop string"],
)
def test_b25_each_choice_of_a_stream_ends_exactly_once(http: httpx.Client, more: dict[str, Any], reason: str) -> None:
    asked = {**CHAT, "max_tokens": 40, "n": 2, **more}
    chunks, _ = streamed(http, "/v1/chat/completions", asked)
    for index in (0, 1):
        choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
        assert choices[0]["delta"]["role"] == "assistant"
        reasons = [choice["finish_reason"] for choice in choices]  # a KeyError where the key is left out
        assert reasons == [None] * (len(reasons) - 1) + [reason]


# -- B62: bodies that are not what they should be -------------------------------------------------------------

JSON = {"content-type": "application/json"}
BAD_BODIES: dict[str, tuple[bytes, dict[str, str], int]] = {
    "not json": (b"{not json", JSON, 400),
    "an array": (b"[]", JSON, 400),
    "a string": (b'"x"', JSON, 400),
    "null": (b"null", JSON, 400),
    "empty": (b"", JSON, 400),
    "not utf-8": (b"\xff\xfe", JSON, 400),
    "not utf-8 in a string": (b'{"prompt": "\xff"}', JSON, 400),
    "half a surrogate": (b'{"prompt": "\\ud800"}', JSON, 400),
    "a key twice": (b'{"prompt": "a", "prompt": "b"}', JSON, 400),
    "too large": (b'{"prompt": "' + b"a" * (17 * 2**20) + b'"}', JSON, 413),
    "too deep": (b"[" * 100_000 + b"]" * 100_000, JSON, 400),
    "wrong type": (b'{"prompt": "a"}', {"content-type": "text/plain"}, 415),
    "compressed": (gzip.compress(b" " * 10**7), {**JSON, "content-encoding": "gzip"}, 415),
    "not a number": (b'{"prompt": "a", "temperature": NaN}', JSON, 400),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_b62_a_bad_body_is_refused_and_the_next_request_served(http: httpx.Client, name: str) -> None:
    body, headers, status = BAD_BODIES[name]
    error_of(http.post("/v1/completions", content=body, headers=headers), status)
    assert text_of(complete(http, prompt="abc", max_tokens=1, ignore_eos=True)) is not None


# -- B74: output layer wider than the tokenizer ---------------------------------------------------------------


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1}, {"top_k": 1}, {"top_p": 0.5}])
def test_b74_ids_without_a_token_are_never_produced(http: httpx.Client, sampling: dict[str, Any]) -> None:
    """The checkpoint scores such an id highest at every position: sampled even once, it would leave no text."""
    asked = {**CHAT, **sampling, "logprobs": True, "top_logprobs": 5, "ignore_eos": True}
    reply = http.post("/v1/chat/completions", json=asked)
    choice = strict_json(reply.text)["choices"][0]
    assert choice["message"]["content"]
    assert len(choice["logprobs"]["content"]) == CHAT["max_tokens"]
    for token in choice["logprobs"]["content"]:
        assert token["bytes"]
        assert token["logprob"] > -30, "the padded id must take no probability from the others"
        assert all(other["bytes"] for other in token["top_logprobs"])


@pytest.mark.parametrize("token_id", [NUM_TOKENS, FORBIDDEN_ID])
def test_b74_a_bias_for_an_id_without_a_token_is_refused(http: httpx.Client, token_id: int) -> None:
    error = error_of(complete(http, **GREEDY, logit_bias={str(token_id): 5}))
    assert error["param"] == "logit_bias"
    assert str(token_id) in error["message"]
    assert str(NUM_TOKENS) in error["message"]


def test_b74_such_an_id_is_no_prompt(http: httpx.Client) -> None:
    assert str(FORBIDDEN_ID) in error_of(complete(http, prompt=[1, FORBIDDEN_ID], max_tokens=1))["message"]


# -- B01, B08, B10, B11: what would have broken the sampler ------------------------------------------------------


@pytest.mark.parametrize("bias", [{str(NUM_TOKENS + 7): 5}, {"cat": -100}, {"-3": 1}, {"5": 101}, {"5": "much"}])
def test_b01_a_bias_that_cannot_be_is_refused_and_touches_no_neighbour(http: httpx.Client, bias: Any) -> None:
    alone = text_of(complete(http, **GREEDY))
    with ThreadPoolExecutor(2) as pool:
        neighbour = pool.submit(complete, http, **GREEDY)
        refused = pool.submit(complete, http, **GREEDY, logit_bias=bias)
    error = error_of(refused.result())
    assert str(error["param"]).startswith("logit_bias")
    assert next(iter(bias)) in error["message"]
    assert text_of(neighbour.result()) == alone


ABSURD: list[dict[str, Any]] = [
    {"n": 5_000_000},
    {"logprobs": 1_000_000_000},
    {"seed": 2**63},
    {"top_p": -1},
    {"top_p": 1.1},
    {"repetition_penalty": 0},
    {"max_tokens": 1e18},
    {"max_tokens": -1},
    {"stop": ["x"] * 1000},
    {"bad_words": ["x"] * 1000},
]


@pytest.mark.parametrize("absurd", ABSURD, ids=lambda absurd: next(iter(absurd)))
def test_b08_an_absurd_number_is_refused_at_once(http: httpx.Client, absurd: dict[str, Any]) -> None:
    started = time.monotonic()
    error = error_of(complete(http, **{"prompt": "abc", "max_tokens": 2, **absurd}))
    assert time.monotonic() - started < 5, "alone it is milliseconds; this machine may be busy"
    assert error["param"] == next(iter(absurd))


def test_b08_numbers_that_are_large_but_fine(http: httpx.Client) -> None:
    for fine in ({"temperature": 1e6}, {"top_p": 1e-9}, {"seed": 2**63 - 1}, {"presence_penalty": 2}):
        reply = complete(http, prompt="abc", max_tokens=3, **fine)
        assert reply.status_code == 200 or "temperature" in error_of(reply)["message"], fine


@pytest.mark.parametrize("words", [[""], [" "], ["a", ""]])
def test_b10_blank_bad_words_are_refused(http: httpx.Client, words: list[str]) -> None:
    assert str(error_of(complete(http, prompt="abc", max_tokens=2, bad_words=words))["param"]).startswith("bad_words")


def test_b10_a_bad_word_appears_in_no_form(http: httpx.Client) -> None:
    text = text_of(complete(http, **GREEDY))
    for word in (text[3], text[5:7]):
        assert word not in text_of(complete(http, **GREEDY, bad_words=[word]))


def test_b11_an_allowed_token_that_is_banned_as_well_lets_no_other_out(http: httpx.Client) -> None:
    reply = complete(http, **GREEDY, allowed_token_ids=[40], bad_words=[_letter_of(http, 40)])
    assert reply.status_code in (400, 500), reply.text
    assert strict_json(reply.text)["error"]["message"]
    assert text_of(complete(http, **GREEDY))


def _letter_of(http: httpx.Client, token_id: int) -> str:
    text: str = strict_json(http.post("/detokenize", json={"tokens": [token_id]}).text)["prompt"]
    return text


# -- B16, B23, B53, B56: scores, counts, ids, salts ---------------------------------------------------------------


def test_b16_a_scored_prompt_has_one_entry_per_token_streamed_or_whole(http: httpx.Client) -> None:
    asked = {"prompt": "Q: 2+2? A: 4", "echo": True, "logprobs": 1, "max_tokens": 0}
    reply = complete(http, **asked)
    assert reply.status_code == 200, reply.text
    body = strict_json(reply.text)
    scores = body["choices"][0]["logprobs"]
    assert body["choices"][0]["text"] == asked["prompt"]
    assert body["usage"]["completion_tokens"] == 0
    assert len(scores["token_logprobs"]) == len(scores["tokens"]) == body["usage"]["prompt_tokens"]
    assert scores["token_logprobs"][0] is None
    assert all(value <= 0 for value in scores["token_logprobs"][1:])
    chunks, _ = streamed(http, "/v1/completions", asked)
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"]]
    assert [value for part in parts if part for value in part["token_logprobs"]] == scores["token_logprobs"]


def test_b23_usage_of_several_choices_and_prompts_comes_once_and_last(http: httpx.Client) -> None:
    asked = {"prompt": ["abc", "xyzzy"], "n": 2, "max_tokens": 3, "ignore_eos": True}
    chunks, _ = streamed(http, "/v1/completions", {**asked, "stream_options": {"include_usage": True}})
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert (chunks[-1]["usage"]["prompt_tokens"], chunks[-1]["usage"]["completion_tokens"]) == (8, 12)


def test_b53_two_requests_with_one_id_each_get_their_own_text(http: httpx.Client) -> None:
    bodies = [{**GREEDY, "prompt": prompt, "ignore_eos": True} for prompt in ("Seven green", "An old paper")]
    alone = [text_of(complete(http, **body)) for body in bodies]
    headers = {"x-request-id": "the-same"}
    with ThreadPoolExecutor(8) as pool:
        posts = [pool.submit(http.post, "/v1/completions", json=bodies[i % 2], headers=headers) for i in range(8)]
    for number, each in enumerate(posts):
        assert each.result().headers["x-request-id"] == "the-same"
        assert text_of(each.result()) == alone[number % 2]


def test_b56_a_prompt_with_another_salt_finds_nothing_cached(http: httpx.Client) -> None:
    def cached(salt: str) -> tuple[int, str]:
        reply = complete(http, **{**GREEDY, "prompt": "A long story " * 30, "cache_salt": salt})
        body = strict_json(reply.text)
        return body["usage"]["prompt_tokens_details"]["cached_tokens"], text_of(reply)

    name = uuid.uuid4().hex
    (first, text), (again, same), (other, equal) = cached(f"x{name}"), cached(f"x{name}"), cached(f"y{name}")
    assert (first, other) == (0, 0)
    assert again > 0
    assert text == same == equal


# -- B52, B59: clients that leave, and gauges --------------------------------------------------------------------


def test_b52_b59_gauges_are_at_zero_soon_after_fifty_streams_were_dropped_at_once(http: httpx.Client) -> None:
    def gauges() -> dict[str, float]:
        lines = [line for line in http.get("/metrics").text.splitlines() if line and not line.startswith("#")]
        found = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
        names = ("infer_requests_open", "infer_requests_running", "infer_requests_waiting")
        return {name: found[name] for name in (*names, 'infer_kv_blocks{state="live"}')}

    address = http.base_url
    body = json.dumps({"prompt": "Seven", "max_tokens": 400, "n": 2, "stream": True, "ignore_eos": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    sockets = [socket.create_connection((address.host, address.port)) for _ in range(50)]
    for each in sockets:
        each.sendall(head.encode() + b"\r\n\r\n" + body)
    assert sockets[0].recv(100)
    assert gauges()["infer_requests_open"] > 0
    for each in sockets:
        each.close()
    deadline = time.monotonic() + 10
    while any(gauges().values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(gauges().values()), gauges()


# -- a server with keys, whose tokenizer begins each text -----------------------------------------------------


def test_keys_guard_everything_but_health_and_b04_with_a_begin_token(infer: Path, tmp_path: Path) -> None:
    """One server for both, for starting it is what takes time."""
    folder = write_tiny_llama(tmp_path / "with-bos", adds_bos=True)
    with (
        serving(infer, [str(folder), "--api-key", "open-sesame", "--engine-process", "inline"], tmp_path) as served,
        httpx.Client(base_url=served.url, timeout=30.0, trust_env=False) as http,
    ):
        for path in ("/health", "/ready"):
            assert http.get(path).status_code == 200
        for path in ("/version", "/plugins", "/v1/models", "/openapi.json"):
            assert error_of(http.get(path), 401)["code"] == "invalid_api_key"
            assert http.get(path, headers={"authorization": "Bearer open-sesamE"}).status_code == 401
        for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"):
            assert http.post(path, json={"prompt": "a"}).status_code == 401
        assert "open-sesame" not in served.said()
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="open-sesame", max_retries=0) as client:
            reply = client.completions.create(model=client.models.list().data[0].id, prompt="", max_tokens=3)
            assert reply.usage is not None
            assert reply.usage.prompt_tokens == 1
