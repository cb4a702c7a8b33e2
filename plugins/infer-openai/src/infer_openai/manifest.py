"""The routes plugin `openai`."""

from __future__ import annotations

from infer_api.manifest import Requires, RoutesPlugin

__all__ = ["OPENAI"]

OPENAI = RoutesPlugin(
    name="openai",
    summary="OpenAI's /v1/models, /v1/completions and /v1/chat/completions, and /tokenize and /detokenize.",
    implementation="infer_openai.routes:OpenAIRoutes",
    requires=Requires(modules=("fastapi", "msgspec", "pydantic")),
)
