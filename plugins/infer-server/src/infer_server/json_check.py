"""What a JSON body must be before a route sees it: UTF-8, well-formed, shallow, without duplicate keys."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from infer_api.errors import RequestError

__all__ = ["check_json"]

# A string that is open at the end counts as one, or each of its quotes would be tried up to there.
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def check_json(body: bytes, max_depth: int) -> None:
    """Raise RequestError (400) unless `body` is one strict JSON text that can be echoed as UTF-8.

    `max_depth` bounds the nesting of arrays and objects.
    """
    too_deep = _refusal(f"arrays and objects are nested deeper than {max_depth} levels (server.max_json_depth)")
    # Before the parser, which takes seconds for megabytes of brackets; this ends where it has become too deep.
    if body.count(b"[") + body.count(b"{") > max_depth and _is_too_deep(body, max_depth):
        raise too_deep
    try:
        value = _parsed(body)
    except RecursionError as error:
        raise too_deep from error
    if _SURROGATE_ESCAPE.search(body) and not _is_encodable(value):
        raise _refusal("a string holds half of a surrogate pair (\\ud800 to \\udfff), which is no character")


def _parsed(body: bytes) -> Any:
    try:
        # Decoded here: the json module would also accept UTF-16 and UTF-32.
        text = body.decode("utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _refusal(f"byte {error.start} is not valid UTF-8") from error
    except json.JSONDecodeError as error:
        raise _refusal(str(error)) from error
    except ValueError:  # all that is left: an integer longer than Python reads, said in terms of Python
        raise _refusal(f"a number has more than {sys.get_int_max_str_digits()} digits") from None


def _refusal(why: str) -> RequestError:
    return RequestError(f"the body is not valid JSON: {why}", code="invalid_json")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _refusal(f"the key {json.dumps(twice[:80])} occurs twice in one object")
    return value


def _no_constant(word: str) -> Any:
    raise _refusal(f"{word} is no JSON value")


def _is_too_deep(body: bytes, max_depth: int) -> bool:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(body):
        first = body[match.start()]
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                return True
        elif first in b"]}":
            depth -= 1
    return False


def _is_encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
