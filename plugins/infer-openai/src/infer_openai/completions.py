"""`/v1/completions`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from infer_api.errors import RequestError
from infer_api.services import Event, ModelCard, PromptScored, Rendered, Services, TextDelta
from infer_openai.answer import answer
from infer_openai.asking import origin, placed
from infer_openai.bodies import CompletionBody
from infer_openai.describing import described, responses
from infer_openai.disconnect import close
from infer_openai.envelope import Head
from infer_openai.logprobs import with_fewer
from infer_openai.rendering import rendered
from infer_openai.replies import CompletionReply
from infer_openai.sampling import completion_sampling, wants_usage
from infer_openai.served import get_card
from infer_openai.shapes import CompletionShape

__all__ = ["completions_router", "with_echo"]


def completions_router(services: Services) -> APIRouter:
    """The route, over `services`."""
    router = APIRouter(tags=["completions"])

    async def completions(body: CompletionBody, request: Request) -> Response:
        """Continue one or more prompts. Choice i of prompt p has the index p · n + i."""
        return await _complete(services, body, request)

    completions.__annotations__["body"] = described(CompletionBody, services.processors)
    answers = responses(CompletionReply, streams=True)
    router.post("/v1/completions", response_model=None, responses=answers)(completions)
    return router


async def _complete(services: Services, body: CompletionBody, request: Request) -> Response:
    card = get_card(services.models, body.model)
    with_usage = wants_usage(body)
    prompts = placed(await rendered(request, lambda: _render(services, body)), body)
    sampling = services.outputs.check(prompts, completion_sampling(body, card, prompts))
    reply_id = f"cmpl-{uuid4().hex}"
    events = services.outputs.stream(prompts, sampling, request_id=reply_id, **origin(request))
    if body.echo:
        texts = [_text_of(services, prompt) for prompt in prompts]
        events = with_echo(events, [text for text in texts for _ in range(sampling.n)], num_top=body.logprobs)
    shape = CompletionShape(
        _head(reply_id, body, card, services),
        with_usage=with_usage,
        with_logprobs=body.logprobs is not None,
        num_prompt_top=body.prompt_logprobs,
    )
    return await answer(request, services.outputs, events, shape, stream=body.stream)


def _render(services: Services, body: CompletionBody) -> list[Rendered]:
    prompts: Sequence[str | list[int]] = body.prompt
    most = services.limits.max_prompts
    if len(prompts) > most:
        raise RequestError(
            f"prompt has {len(prompts)} elements, {most} are allowed (--server.max-prompts)", param="prompt"
        )
    most_choices = max(services.limits.max_n, most)
    num_choices = len(prompts) * (body.n or 1)
    if len(prompts) > 1 and num_choices > most_choices:
        raise RequestError(
            f"prompt x n ask for {len(prompts)} x {body.n} = {num_choices} choices, {most_choices} are allowed "
            "(the larger of --server.max-prompts and --server.max-n)",
            param="n",
        )
    is_one = len(prompts) == 1
    return [
        services.renderer.text(prompt, special=body.add_special_tokens, param="prompt" if is_one else f"prompt[{at}]")
        for at, prompt in enumerate(prompts)
    ]


def _text_of(services: Services, prompt: Rendered) -> str:
    return services.renderer.detokenize(prompt.prompt_ids) if prompt.text is None else prompt.text


async def with_echo(
    events: AsyncIterator[Event], texts: Sequence[str], *, num_top: int | None = None
) -> AsyncIterator[Event]:
    """`events`, with `texts[i]` as the first text of choice i. Errors before the first event stay before it.

    With `num_top` the text comes with the tokens of the prompt and that many alternatives for each.
    """
    try:
        first = await anext(events)
        if num_top is None:
            for index, text in enumerate(texts):
                yield TextDelta(index, text)
        for event in _echoed(first, texts, num_top):
            yield event
        async for event in events:
            for each in _echoed(event, texts, num_top):
                yield each
    finally:
        await close(events)


def _echoed(event: Event, texts: Sequence[str], num_top: int | None) -> Sequence[Event]:
    if num_top is None or not isinstance(event, PromptScored):
        return (event,)
    return event, TextDelta(event.index, texts[event.index], with_fewer(event.tokens, num_top))


def _head(reply_id: str, body: CompletionBody, card: ModelCard, services: Services) -> Head:
    return Head(reply_id, int(time.time()), body.model or card.id, services.fingerprint)
