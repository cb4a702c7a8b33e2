"""Sampling flags of `chat` and `complete` → `SamplingParams`."""

from __future__ import annotations

from infer.cli.commands import Invocation
from infer_api.requests import SamplingParams
from infer_api.services import ModelCard

__all__ = ["sampling_of"]

NAMES = ("max_tokens", "temperature", "top_p", "top_k")


def sampling_of(invocation: Invocation, card: ModelCard) -> SamplingParams:
    """What was said on the command line, over the checkpoint's own defaults."""
    said = {name: invocation.options[name] for name in NAMES if invocation.options.get(name) is not None}
    return SamplingParams(**{**card.defaults, **said})
