"""The few lines printed when the server is ready."""

from __future__ import annotations

import json

from infer_api.requests import EngineStats
from infer_api.services import ModelCard, Services

__all__ = ["TRY_PATHS", "ready_lines"]

_CHAT = "/v1/chat/completions"
_COMPLETIONS = "/v1/completions"
TRY_PATHS = (_CHAT, _COMPLETIONS)
"""Paths that the command to try may use, if a routes plugin answers them."""


def ready_lines(services: Services, stats: EngineStats, url: str, paths: frozenset[str]) -> list[str]:
    """Address, model, KV capacity, default sampling and a command to try.

    `paths` are those of TRY_PATHS that the app answers.
    """
    card = services.models[0]
    return [
        f"infer {services.version} serves {' = '.join((card.id, *card.aliases))} at {url}",
        f"KV cache: {stats.capacity_tokens:,} tokens; longest request: {card.max_model_len:,} tokens",
        f"Default sampling: {_sampling(card)}",
        f"Try: {_curl(card, url, paths, needs_key=not services.guard.allows(None))}",
    ]


def _sampling(card: ModelCard) -> str:
    if not card.defaults:
        return "temperature 1 (the model recommends nothing)"
    return ", ".join(f"{name} {value}" for name, value in sorted(card.defaults.items())) + " (as the model recommends)"


def _curl(card: ModelCard, url: str, paths: frozenset[str], *, needs_key: bool) -> str:
    if _CHAT in paths and card.has_chat_template:
        path, body = (
            _CHAT,
            json.dumps({"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 64}),
        )
    elif _COMPLETIONS in paths:
        path, body = _COMPLETIONS, json.dumps({"prompt": "The capital of France is", "max_tokens": 64})
    else:
        return f"curl {url}/ready"
    key = " -H 'Authorization: Bearer YOUR_KEY'" if needs_key else ""
    return f"curl {url}{path}{key} -H 'Content-Type: application/json' -d '{body}'"
