"""`/v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from infer_api.errors import RequestError
from infer_api.requests import SamplingParams
from infer_api.services import ModelCard, Rendered, Services
from infer_openai.answer import answer
from infer_openai.asking import origin, placed
from infer_openai.bodies import ChatBody
from infer_openai.conversation import read_messages, read_tools
from infer_openai.describing import described, responses
from infer_openai.envelope import Head
from infer_openai.rendering import rendered
from infer_openai.replies import ChatReply
from infer_openai.sampling import chat_sampling, wants_usage
from infer_openai.served import get_card
from infer_openai.shapes import ChatShape

__all__ = ["chat_router", "render_chat"]


def chat_router(services: Services) -> APIRouter:
    """The route, over `services`."""
    router = APIRouter(tags=["chat"])

    async def chat_completions(body: ChatBody, request: Request) -> Response:
        """Answer a conversation."""
        return await _chat(services, body, request)

    chat_completions.__annotations__["body"] = described(ChatBody, services.processors)
    answers = responses(ChatReply, streams=True)
    router.post("/v1/chat/completions", response_model=None, responses=answers)(chat_completions)
    return router


async def _chat(services: Services, body: ChatBody, request: Request) -> Response:
    card = get_card(services.models, body.model)
    with_usage = wants_usage(body)
    asked = chat_sampling(body, card, services.limits)
    _check_count(body, card)
    (prompt,) = placed([await rendered(request, lambda: _render(services, body))], body)
    sampling = _checked(services, prompt, asked, body)
    reply_id = f"chatcmpl-{uuid4().hex}"
    head = Head(reply_id, int(time.time()), body.model or card.id, services.fingerprint)
    events = services.outputs.stream([prompt], sampling, request_id=reply_id, **origin(request))
    shape = ChatShape(head, with_usage=with_usage, with_logprobs=body.logprobs, num_prompt_top=body.prompt_logprobs)
    return await answer(request, services.outputs, events, shape, stream=body.stream)


def _check_count(body: ChatBody, card: ModelCard) -> None:
    """Refuse what cannot fit before any of it is rendered: no message takes less than a token."""
    if len(body.messages) >= card.max_model_len:
        raise RequestError(
            f"messages has {len(body.messages)} elements, which cannot fit the model's {card.max_model_len} tokens "
            "(--max-model-len)",
            param="messages",
            code="context_length_exceeded",
        )


def _render(services: Services, body: ChatBody) -> Rendered:
    return render_chat(services, body.messages, read_tools(body.tools, body.tool_choice), body.chat_template_kwargs)


def render_chat(
    services: Services,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    options: Mapping[str, Any] | None,
) -> Rendered:
    """The prompt of a conversation. Raises RequestError naming the message at fault."""
    return services.renderer.chat(read_messages(messages), tools, options or {})


def _checked(services: Services, prompt: Rendered, asked: SamplingParams, body: ChatBody) -> SamplingParams:
    """Checked sampling; errors name the limit as this request spelled it."""
    try:
        return services.outputs.check([prompt], asked)
    except RequestError as error:
        if error.param == "max_tokens" and body.max_completion_tokens is not None:
            message = error.message.replace("max_tokens", "max_completion_tokens")
            raise RequestError(message, param="max_completion_tokens", code=error.code, status=error.status) from error
        raise
