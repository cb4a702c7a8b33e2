"""Which fields of a body are read, which may be dropped, and which must be refused.

OpenAI's own fields that cannot change the answer are dropped. Those that would change it, but that nobody here
implements, are refused unless they carry their neutral value. Everything else is a typing error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from infer_api.errors import RequestError

__all__ = ["IRRELEVANT", "UNSUPPORTED", "screen"]

IRRELEVANT = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)

UNSUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "add_generation_prompt": (True,),
    "audio": (),
    "best_of": (),
    "chat_template": (),
    "continue_final_message": (False,),
    "documents": ([],),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "grammar": (),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "length_penalty": (1.0,),
    "modalities": (["text"],),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "spaces_between_special_tokens": (True,),
    "structured_outputs": (),
    "suffix": ("",),
    "truncate_prompt_tokens": (),
    "typical_p": (1.0,),
    "use_beam_search": (False,),
    "verbosity": ("medium",),
    "web_search_options": (),
}
"""Field → the values that mean "off"; null always does."""


def screen(body: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields of `body` that are in `known` and not null. Raises RequestError (400) naming a wrong field."""
    kept = {}
    for name, value in body.items():
        if name in known:
            if value is not None:
                kept[name] = value
        elif name in UNSUPPORTED:
            if value is not None and value not in UNSUPPORTED[name]:
                raise _unsupported(name)
        elif name not in IRRELEVANT:
            raise _unknown(name, known)
    return kept


def _unsupported(name: str) -> RequestError:
    neutral = UNSUPPORTED[name]
    instead = f"leave it out, or send {neutral[0]!r}" if neutral else "leave it out"
    return RequestError(f"{name} is not supported here; {instead}", param=name, code="unsupported_parameter")


def _unknown(name: str, known: Collection[str]) -> RequestError:
    near = get_close_matches(name[:80], [*known, *IRRELEVANT], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return RequestError(f"there is no parameter {name[:80]!r}{hint}", param=name[:80], code="unknown_parameter")
