"""The plugin: all routers in one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from infer_api.services import Services
from infer_openai.chat import chat_router
from infer_openai.completions import completions_router
from infer_openai.served import models_router
from infer_openai.tokens import tokens_router

__all__ = ["OpenAIRoutes"]


class OpenAIRoutes:
    """Implements `infer_api.routes.Routes`; it has no options."""

    def __init__(self, options: Any) -> None:
        del options

    def router(self, services: Services) -> APIRouter:
        """The routes over `services`. Handlers raise RequestError and EngineDeadError."""
        router = APIRouter()
        for make in (models_router, completions_router, chat_router, tokens_router):
            router.include_router(make(services))
        return router
