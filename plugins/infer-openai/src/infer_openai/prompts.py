"""`prompt` of a completion: one of four shapes → a list of texts and lists of token ids."""

from __future__ import annotations

from typing import Any

from infer_api.errors import RequestError

__all__ = ["read_prompts"]

_SHAPES = "a string, a list of strings, a list of token ids or a list of those"


def read_prompts(prompt: Any) -> list[str | list[int]]:
    """The prompts in order. Raises RequestError (400) naming the element at fault."""
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list):
        raise RequestError(f"prompt must be {_SHAPES}", param="prompt", code="invalid_type")
    if not prompt:
        raise RequestError("prompt is an empty list; send at least one prompt", param="prompt")
    if _is_id(prompt[0]):
        return [_ids(prompt, "prompt")]
    return [each if isinstance(each, str) else _ids(each, f"prompt[{at}]") for at, each in enumerate(prompt)]


def _ids(value: Any, path: str) -> list[int]:
    if not isinstance(value, list):
        raise RequestError(f"{path} is no text and no token id; prompt is {_SHAPES}", param=path, code="invalid_type")
    for at, token_id in enumerate(value):
        if not _is_id(token_id):
            raise RequestError(f"{path}[{at}] must be a token id", param=f"{path}[{at}]", code="invalid_type")
    return value


def _is_id(value: Any) -> bool:
    return type(value) is int  # not bool, which is a kind of int
