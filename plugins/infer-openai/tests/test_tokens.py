from __future__ import annotations

from typing import Any

import httpx
import pytest

BOS = 256


async def test_text_becomes_ids(client: httpx.AsyncClient) -> None:
    reply = await client.post("/tokenize", json={"prompt": "ab"})
    assert reply.json() == {"count": 3, "max_model_len": 64, "tokens": [BOS, 97, 98]}


async def test_special_tokens_can_be_left_out_and_texts_shown(client: httpx.AsyncClient) -> None:
    body = {"prompt": "ab", "add_special_tokens": False, "return_token_strs": True}
    reply = (await client.post("/tokenize", json=body)).json()
    assert (reply["tokens"], reply["token_strs"]) == ([97, 98], ["a", "b"])


async def test_a_conversation_goes_through_the_template(client: httpx.AsyncClient, renderer: Any) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "chat_template_kwargs": {"think": False}}
    assert (await client.post("/tokenize", json=body)).json()["tokens"] == [BOS, *b"chat"]
    assert renderer.chats == [([{"role": "user", "content": "hi"}], [], {"think": False})]


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": []}])
async def test_prompt_or_messages_but_not_both(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    reply = await client.post("/tokenize", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "prompt")


async def test_ids_become_text(client: httpx.AsyncClient) -> None:
    reply = await client.post("/detokenize", json={"tokens": [BOS, *"Größe".encode()]})
    assert reply.json() == {"prompt": "Größe"}


async def test_ids_outside_of_the_vocabulary_are_refused(client: httpx.AsyncClient) -> None:
    reply = await client.post("/detokenize", json={"tokens": [300]})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "tokens")
