"""`/tokenize` and `/detokenize`, in vLLM's shapes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from infer_api.errors import RequestError
from infer_api.services import Rendered, Services
from infer_openai.bodies import DetokenizeBody, TokenizeBody
from infer_openai.chat import render_chat
from infer_openai.conversation import read_tools
from infer_openai.describing import responses
from infer_openai.envelope import encode
from infer_openai.rendering import rendered
from infer_openai.replies import DetokenizeReply, TokenizeReply
from infer_openai.served import get_card

__all__ = ["tokens_router"]


def tokens_router(services: Services) -> APIRouter:
    """Both routes, over `services`."""
    router = APIRouter(tags=["tokens"])

    @router.post("/tokenize", response_model=None, responses=responses(TokenizeReply))
    async def tokenize(body: TokenizeBody, request: Request) -> Response:
        """Token ids of a text or of a conversation, as a completion would see them."""
        card = get_card(services.models, body.model)
        reply = await rendered(request, lambda: _tokenized(services, body, card.max_model_len))
        return Response(reply, media_type="application/json")

    @router.post("/detokenize", response_model=None, responses=responses(DetokenizeReply))
    async def detokenize(body: DetokenizeBody, request: Request) -> Response:
        """The text of token ids."""
        get_card(services.models, body.model)
        text = await rendered(request, lambda: _decode(services, body.tokens))
        return Response(encode({"prompt": text}), media_type="application/json")

    return router


def _tokenized(services: Services, body: TokenizeBody, max_model_len: int) -> bytes:
    ids = _render(services, body).prompt_ids
    reply: dict[str, Any] = {"count": len(ids), "max_model_len": max_model_len, "tokens": ids}
    if body.return_token_strs:
        reply["token_strs"] = [services.renderer.token_text(token_id) for token_id in ids]
    return encode(reply)


def _decode(services: Services, ids: list[int]) -> str:
    checked = services.renderer.text(ids, param="tokens")
    return services.renderer.detokenize(checked.prompt_ids)


def _render(services: Services, body: TokenizeBody) -> Rendered:
    if (body.prompt is None) == (body.messages is None):
        raise RequestError("send either prompt or messages", param="prompt")
    if body.messages is not None:
        return render_chat(services, body.messages, read_tools(body.tools, None), body.chat_template_kwargs)
    assert body.prompt is not None
    return services.renderer.text(body.prompt, special=body.add_special_tokens)
