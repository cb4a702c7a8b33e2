"""Kind `logits_processors`: code that changes scores before a token is drawn, for requests that ask for it.

A request asks with `logits_processors: {name: {parameters}}`; the manifest's `request` says which parameters there
are, so they are checked before the engine hears of the request. Letters: V width of the output layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, device

__all__ = ["LogitsProcessor", "ProcessorContext", "RowProcessor"]


@dataclass(frozen=True)
class ProcessorContext:
    """What a processor may know of the worker: `width` is V, `device` where scores lie."""

    width: int
    device: device


class RowProcessor(Protocol):
    """The processor of one request, made when it is admitted, dropped when it ends. Also made anew after a preemption.

    One that raises ends its request with an error, and no other.
    """

    def __call__(self, scores_V: Tensor, token_ids: Sequence[int]) -> None:
        """Change one row of scores (float32 [V], contiguous) in place.

        `token_ids` are prompt and generated tokens so far, not to be changed. It runs after bias, penalties, bad words
        and allowed tokens, before temperature and filters; minus infinity forbids a token.
        """
        ...


class LogitsProcessor(Protocol):
    """Built by the manifest's `implementation(options)`, once per worker."""

    def __init__(self, options: Any) -> None: ...

    def row(self, parameters: Any, num_prompt: int, context: ProcessorContext) -> RowProcessor:
        """For one request: `parameters` is an instance of the manifest's `request` class."""
        ...
