"""The names of served models, and `/v1/models`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from fastapi import APIRouter

from infer_api.errors import RequestError
from infer_api.services import ModelCard, Services
from infer_openai.describing import responses
from infer_openai.replies import ModelReply, ModelsReply

__all__ = ["get_card", "models_router"]


def get_card(cards: Sequence[ModelCard], name: str | None) -> ModelCard:
    """The model called `name`, or the first for None. Raises RequestError (404, model_not_found)."""
    if name is None:
        return cards[0]
    for card in cards:
        if name == card.id or name in card.aliases:
            return card
    names = [each for card in cards for each in (card.id, *card.aliases)]
    near = get_close_matches(name[:200], names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"served here: {', '.join(map(repr, names))}"
    raise RequestError(f"there is no model {name[:200]!r}; {hint}", param="model", code="model_not_found", status=404)


def models_router(services: Services) -> APIRouter:
    """`/v1/models` and `/v1/models/{id}`."""
    router = APIRouter(tags=["models"])

    @router.get("/v1/models", response_model=None, responses=responses(ModelsReply))
    async def models() -> dict[str, Any]:
        """Every name that requests may use."""
        data = [_entry(card, name) for card in services.models for name in (card.id, *card.aliases)]
        return {"object": "list", "data": data}

    @router.get("/v1/models/{model_id:path}", response_model=None, responses=responses(ModelReply))
    async def model(model_id: str) -> dict[str, Any]:
        """One model by name."""
        return _entry(get_card(services.models, model_id), model_id)

    return router


def _entry(card: ModelCard, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": card.created_s,
        "owned_by": "infer",
        "root": card.id,
        "parent": None,
        "max_model_len": card.max_model_len,
        "default_sampling": dict(card.defaults),
    }
