"""Bodies and requests that nobody should send, made from good ones; all of it follows from a seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["GOOD", "Shot", "mutated"]

GOOD: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "/v1/chat/completions",
        {
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}],
            "max_tokens": 3,
            "temperature": 0.7,
            "seed": 3,
            "stop": ["x"],
        },
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            "max_completion_tokens": 2,
            "logprobs": True,
            "top_logprobs": 2,
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        },
    ),
    (
        "/v1/completions",
        {
            "prompt": "Seven green bottles",
            "max_tokens": 3,
            "n": 2,
            "logprobs": 1,
            "echo": True,
            "top_p": 0.9,
            "top_k": 5,
            "min_p": 0.01,
            "logit_bias": {"5": 1.5},
            "presence_penalty": 0.1,
            "frequency_penalty": 0.1,
            "repetition_penalty": 1.1,
        },
    ),
    (
        "/v1/completions",
        {"prompt": ["a", "b"], "max_tokens": 2, "stream": True, "stop_token_ids": [7], "min_tokens": 1},
    ),
    ("/v1/completions", {"prompt": [[1, 2], [3]], "max_tokens": 2, "ignore_eos": True, "seed": 1}),
    (
        "/v1/completions",
        {
            "prompt": "abc",
            "max_tokens": 2,
            "bad_words": ["the"],
            "allowed_token_ids": [40, 41, 42],
            "prompt_logprobs": 1,
            "cache_salt": "s",
            "priority": 1,
            "logits_processors": {"ngram": {}},
        },
    ),
    ("/tokenize", {"prompt": "Seven green bottles", "return_token_strs": True}),
    ("/tokenize", {"messages": [{"role": "user", "content": "Hi"}]}),
    ("/detokenize", {"tokens": [1, 2, 3]}),
)

_NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, -(2**31), 2**31, 2**63 - 1, 2**63, 2**64, 10**40, -0.0, 0.5, 1e-320, 1e308, -1e308, 1.7e400,
    float("nan"), float("inf"), float("-inf"), 0.1 + 0.2, 1e18,
)  # fmt: skip
_TEXTS: tuple[Any, ...] = (
    "", " ", "\x00", "a\x00b", "é" * 50, "🎈" * 20, "\u202eabc", "\u200d\ufeff", "\ud800", "\udfff x", "a" * 5000,
    "\n" * 300, "<|im_start|>", "<s></s>", "{{ 7 * 7 }}", "{% for x in range(10**9) %}{% endfor %}", "%s%n",
    "../../etc/passwd", "null", "5", "\U0010ffff", "\r\n\r\n",
)  # fmt: skip
_PLAIN: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": {}}, [None], {"a": [1, {"b": None}]})
_THINGS = (*_PLAIN, *_NUMBERS, *_TEXTS)
_KEYS = (
    "n", "best_of", "prompt", "messages", "stream", "stop", "logit_bias", "tools", "tool_choice", "response_format",
    "model", "max_tokens", "seed", "user", "suffix", "echo", "functions", "truncate_prompt_tokens", "chat_template",
    "add_special_tokens", "chat_template_kwargs", "skip_special_tokens", "include_stop_str_in_output", "guided_json",
    "priority", "cache_salt", "bad_words", "allowed_token_ids", "", "\u0000", "__class__",
)  # fmt: skip
_CONTENT_TYPES = (
    "text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded", "multipart/form-data", "é",
    "*/*", "application/json;;;", "APPLICATION/JSON", "application/vnd.x+json",
)  # fmt: skip


@dataclass(frozen=True)
class Shot:
    """One request: path, body and headers; `raw` replaces all of it. `kind` is how it was made."""

    kind: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""


def mutated(rng: random.Random) -> Shot:
    """A shot that differs from a good one in one to four ways; one in twenty is good."""
    path, good = rng.choice(GOOD)
    body: Any = copy.deepcopy(good)
    draw = rng.random()
    if draw < 0.05:
        return Shot("good", path, _dump(body))
    if draw < 0.72:
        ways = [rng.choice(_STRUCTURAL) for _ in range(rng.randint(1, 4))]
        for way in ways:
            body = way(rng, body)
        return Shot(f"structure: {ways[0].__name__.strip('_')}", path, _dump(body))
    if draw < 0.85:
        return Shot("bytes", path, _damage(rng, _dump(body)))
    if draw < 0.93:
        return _odd_headers(rng, path, _dump(body))
    return _odd_wire(rng, path, _dump(body))


def _dump(body: Any) -> bytes:
    return json.dumps(body).encode("ascii")


# -- structure ----------------------------------------------------------------------------------------------------


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything inside, down to a depth where it is all the same."""
    found: list[tuple[Any, Any]] = []
    level = [value]
    for _ in range(30):
        containers = [one for one in level if isinstance(one, dict | list)]
        here = [(one, key) for one in containers for key in (list(one) if isinstance(one, dict) else range(len(one)))]
        found += here
        level = [container[key] for container, key in here]
    return found


def _replace(rng: random.Random, body: Any) -> Any:
    places = _places(body)
    if not places:
        return rng.choice(_THINGS)
    container, key = rng.choice(places)
    container[key] = copy.deepcopy(rng.choice(_THINGS))
    return body


def _renumber(rng: random.Random, body: Any) -> Any:
    places = [(c, k) for c, k in _places(body) if isinstance(c[k], int | float)]
    if places:
        container, key = rng.choice(places)
        container[key] = rng.choice(_NUMBERS)
    return body


def _retext(rng: random.Random, body: Any) -> Any:
    places = [(c, k) for c, k in _places(body) if isinstance(c[k], str)]
    if places:
        container, key = rng.choice(places)
        container[key] = rng.choice(_TEXTS)
    return body


def _delete(rng: random.Random, body: Any) -> Any:
    places = _places(body)
    if places:
        container, key = rng.choice(places)
        del container[key]
    return body


def _add(rng: random.Random, body: Any) -> Any:
    objects = [body, *(c[k] for c, k in _places(body))]
    container = rng.choice([one for one in objects if isinstance(one, dict)] or [{}])
    container[rng.choice(_KEYS)] = copy.deepcopy(rng.choice(_THINGS))
    return body


def _swap(rng: random.Random, body: Any) -> Any:
    places = _places(body)
    if len(places) > 1:
        (first, one), (second, other) = rng.sample(places, 2)
        first[one], second[other] = copy.deepcopy(second[other]), copy.deepcopy(first[one])
    return body


def _repeat(rng: random.Random, body: Any) -> Any:
    places = [(c, k) for c, k in _places(body) if isinstance(c[k], list | str)]
    if places:
        container, key = rng.choice(places)
        container[key] = container[key] * rng.choice((0, 2, 50, 700))
    return body


def _nest(rng: random.Random, body: Any) -> Any:
    places = _places(body)
    if places:
        container, key = rng.choice(places)
        for _ in range(rng.choice((1, 5, 90, 105, 400))):
            container[key] = [container[key]] if rng.random() < 0.5 else {"a": container[key]}
    return body


def _retype(rng: random.Random, body: Any) -> Any:
    places = _places(body)
    if places:
        container, key = rng.choice(places)
        value = container[key]
        container[key] = rng.choice(
            [str(value), [value], {"value": value}, bool(value), len(str(value)), json.dumps(value)]
        )
    return body


def _transplant(rng: random.Random, body: Any) -> Any:
    """Fields of another route's good body."""
    other = copy.deepcopy(rng.choice(GOOD)[1])
    if isinstance(body, dict):
        body.update(dict(rng.sample(sorted(other.items()), rng.randint(1, len(other)))))
    return body


_STRUCTURAL: tuple[Callable[[random.Random, Any], Any], ...] = (
    _replace, _replace, _renumber, _renumber, _retext, _delete, _add, _add, _swap, _repeat, _nest, _retype, _transplant,
)  # fmt: skip


# -- bytes, headers, framing ----------------------------------------------------------------------------------------


def _damage(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return rng.choice(
        [
            data[:at],
            data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
            data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:],
            data[:at] + b"\\ud800" + data[at:],
            data + data,
            data[:-1] + b',"n":1,"n":2}',
            data.replace(b"3", b"NaN"),
            data.replace(b"2", b"-Infinity"),
            data.replace(b"1", b"0001"),
            data.replace(b'"', b"'"),
            data.replace(b":", b":" + b"[" * rng.choice((10, 1000, 50_000)), 1),
            b"\xef\xbb\xbf" + data,
            data.decode().encode("utf-16"),
            b" " * 3000 + data,
            b"",
            data[:-1] + b',"' + rng.randbytes(6) + b'":1}',
            data[:-1] + b',"seed":' + b"9" * rng.choice((30, 5000)) + b"}",
        ]
    )


def _odd_headers(rng: random.Random, path: str, data: bytes) -> Shot:
    headers = rng.choice(
        [
            {"Content-Type": rng.choice(_CONTENT_TYPES)},
            {"Content-Type": ""},
            {"Content-Encoding": rng.choice(("gzip", "br", "identity", "nonsense"))},
            {"X-Request-Id": rng.choice(("a" * 3000, "é", "a b", "\x7f", "0"))},
            {"Accept": rng.choice(("text/html", "application/xml", "nothing"))},
            {"Authorization": rng.choice(("Bearer", "Bearer é", "Basic " + "x" * 4000, "Bearer a, Bearer b"))},
            {"Host": ""},
            {"Host": "evil.example:99999"},
            {"Expect": "100-continue"},
            {"Connection": "upgrade", "Upgrade": "websocket"},
            {"Origin": "http://evil.example"},
            {"Transfer-Encoding": "gzip"},
        ]
    )
    return Shot(f"header: {next(iter(headers))}", path, data, headers)


_METHODS = (b"GET", b"PUT", b"DELETE", b"PATCH", b"BREW", b"post")
_VERSIONS = (b"HTTP/1.0", b"HTTP/9.9", b"HTTP/2", b"")
_PATHS = (b"/v1/%00", b"//v1", b"/v1/../x", b"*", b"/" + b"a" * 9000, b"/%ff%fe")


def _odd_wire(rng: random.Random, path: str, data: bytes) -> Shot:
    """Framing that the HTTP parser must refuse, or reassemble."""
    head = f"POST {path} HTTP/1.1\r\nHost: load\r\nConnection: close\r\nContent-Type: application/json\r\n".encode()
    half = len(data) // 2
    chunks = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (half, data[:half], len(data) - half, data[half:])
    chunked, length = b"Transfer-Encoding: chunked\r\n", b"Content-Length: %d\r\n" % len(data)
    ways = {
        "chunked": head + chunked + b"\r\n" + chunks,
        "chunk extensions": head + chunked + b"\r\n" + chunks.replace(b"\r\n", b";a=b\r\n", 1),
        "chunk size is no number": head + chunked + b"\r\nzz\r\n" + data + b"\r\n0\r\n\r\n",
        "huge chunk size": head + chunked + b"\r\n" + b"f" * 40 + b"\r\n" + data,
        "chunked and a length": head + chunked + length + b"\r\n" + chunks,
        "two lengths": head + length + b"Content-Length: 3\r\n\r\n" + data,
        "negative length": head + b"Content-Length: -5\r\n\r\n" + data,
        "length is no number": head + b"Content-Length: many\r\n\r\n" + data,
        "huge length": head + b"Content-Length: 999999999999\r\n\r\n" + data,
        "too short a length": head + b"Content-Length: %d\r\n\r\n" % half + data,
        "method": head.replace(b"POST", rng.choice(_METHODS), 1) + length + b"\r\n" + data,
        "version": head.replace(b"HTTP/1.1", rng.choice(_VERSIONS), 1) + length + b"\r\n" + data,
        "path": head.replace(path.encode(), rng.choice(_PATHS), 1) + length + b"\r\n" + data,
        "query": head.replace(path.encode(), path.encode() + b"?a=%00&a=b&&=", 1) + length + b"\r\n" + data,
        "many headers": head + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + length + b"\r\n" + data,
        "header without a colon": head + b"nonsense\r\n" + length + b"\r\n" + data,
        "binary": rng.randbytes(200) + b"\r\n\r\n",
    }
    name = rng.choice(sorted(ways))
    return Shot(f"wire: {name}", path, raw=ways[name])
