"""Flags of the two commands."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infer_api.options import Options
from infer_api.requests import SamplingParams
from infer_api.services import ModelCard

__all__ = ["ChatOptions", "SamplingOptions"]


class SamplingOptions(Options):
    """How tokens are drawn. What is unset is left to the checkpoint's own recommendation."""

    max_tokens: Annotated[int | None, Field(ge=1)] = None
    """Most tokens of an answer. Unset: what the model's length leaves."""
    temperature: Annotated[float | None, Field(ge=0)] = None
    """0 is greedy. Unset: the model's own default."""
    top_p: Annotated[float | None, Field(ge=0)] = None
    """Smallest set of tokens with this much probability. Unset: the model's own."""
    top_k: Annotated[int | None, Field(ge=0)] = None
    """Only the most likely tokens; 0 is off. Unset: the model's own."""

    def sampling(self, card: ModelCard) -> SamplingParams:
        """What was said, over the checkpoint's own defaults."""
        said = {name: getattr(self, name) for name in SamplingOptions.model_fields}
        return SamplingParams(**{**card.defaults, **{name: value for name, value in said.items() if value is not None}})


class ChatOptions(SamplingOptions):
    """Flags of `infer chat`."""

    system: str | None = None
    """System message at the start."""
