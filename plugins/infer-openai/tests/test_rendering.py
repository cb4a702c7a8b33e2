from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from infer_api.services import Rendered
from infer_openai.rendering import LONG_BODY_BYTES


@pytest.fixture
def threads(renderer: Any, monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Where `renderer` was called."""
    seen: list[threading.Thread] = []

    def render(*arguments: Any, **fields: Any) -> Rendered:
        seen.append(threading.current_thread())
        return Rendered((1, 2), "ab")

    monkeypatch.setattr(renderer, "text", render)
    monkeypatch.setattr(renderer, "chat", render)
    return seen


def body_of(path: str, text: str) -> dict[str, Any]:
    if path == "/detokenize":
        return {"tokens": [7] * (len(text) // 2)}
    return {"messages": [{"role": "user", "content": text}]} if "chat" in path else {"prompt": text}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"])
async def test_a_long_body_is_rendered_beside_the_event_loop_and_a_short_one_on_it(
    path: str, client: httpx.AsyncClient, threads: list[threading.Thread]
) -> None:
    for text in ("short", "x" * LONG_BODY_BYTES):
        reply = await client.post(path, json=body_of(path, text))
        assert reply.status_code == 200, reply.text
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threading.current_thread()


async def test_what_is_wrong_with_a_long_body_is_told_as_ever(client: httpx.AsyncClient) -> None:
    reply = await client.post("/detokenize", json={"tokens": [300] * (LONG_BODY_BYTES // 4)})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tokens")


@pytest.mark.parametrize(("length", "is_beside"), [(5, False), (LONG_BODY_BYTES, True)])
async def test_texts_of_many_tokens_are_looked_up_beside_the_event_loop(
    length: int, is_beside: bool, client: httpx.AsyncClient, renderer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[threading.Thread] = set()

    def token_text(token_id: int) -> str:
        seen.add(threading.current_thread())
        return "x"

    monkeypatch.setattr(renderer, "token_text", token_text)
    reply = await client.post("/tokenize", json={"prompt": "x" * length, "return_token_strs": True})
    assert reply.json()["token_strs"] == ["x"] * (length + 1)
    assert (threading.current_thread() not in seen) is is_beside
