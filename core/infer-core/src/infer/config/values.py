"""Values by JSON schema: text of a flag or variable → value, and a check of what YAML brought.

Covers what pydantic writes for option fields: scalars, optional ones, enums, arrays, string maps and `$ref`s.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from infer.config.sizes import parse_size

__all__ = ["check_value", "describe_type", "nearest", "parse_text"]

Type = Mapping[str, Any]

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})
WORDS = {"integer": "int", "number": "float", "boolean": "bool", "string": "text", "object": "map", "null": "none"}


def nearest(word: str, known: list[str]) -> str:
    """ "Did you mean 'a' or 'b'?" with a space before it, or nothing when no known word is near."""
    near = get_close_matches(word, known, n=2, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(one) for one in near)}?" if near else ""


def _resolve(type_: Type, defs: Type | None) -> Type:
    return _resolve((defs or {})[type_["$ref"].rpartition("/")[2]], defs) if "$ref" in type_ else type_


def _choices(type_: Type, defs: Type | None) -> list[Type]:
    type_ = _resolve(type_, defs)
    if "anyOf" not in type_:
        return [type_]
    return [choice for part in type_["anyOf"] for choice in _choices(part, defs)]


def describe_type(type_: Type, defs: Type | None = None) -> str:
    """Short words for people: "int", "size", "list of text", "auto | inline | separate"."""
    return " | ".join(_word(part, defs) for part in _choices(type_, defs) if part.get("type") != "null")


def _word(type_: Type, defs: Type | None) -> str:
    if "enum" in type_:
        return " | ".join(str(value) for value in type_["enum"])
    if "const" in type_:
        return str(type_["const"])
    if type_.get("format") == "bytes":
        return "size"
    if type_.get("type") == "array":
        return f"list of {describe_type(type_.get('items', {}), defs)}"
    return WORDS.get(type_.get("type", ""), "any")


def parse_text(text: str, type_: Type, defs: Type | None = None) -> Any:
    """The value that `text` stands for. Lists: comma-separated or JSON; maps: k=v,k=v or JSON.

    Raises ValueError whose message is a clause such as "must be int, found 'x'".
    """
    choices = _choices(type_, defs)
    if text.lower() in ("none", "null") and any(part.get("type") == "null" for part in choices):
        return None
    # Text fits a string always, so it is what remains when nothing stricter fits.
    strict = sorted(choices, key=lambda part: part.get("type") == "string" and "enum" not in part)
    for part in strict:
        try:
            value = _convert(text, part, defs)
        except (ValueError, RecursionError):  # JSON may be nested without end
            continue
        check_value(value, type_, defs)
        return value
    raise ValueError(_wrong(text, type_, defs))


def _wrong(value: object, type_: Type, defs: Type | None) -> str:
    names = [str(one) for part in _choices(type_, defs) for one in part.get("enum", ())]
    hint = nearest(value, names) if isinstance(value, str) else ""
    wanted = describe_type(type_, defs)
    more = " such as 512MiB or 2GiB" if wanted == "size" else ""
    return f"must be {wanted}{more}, found {value!r}.{hint}" if hint else f"must be {wanted}{more}, found {value!r}"


def _convert(text: str, part: Type, defs: Type | None) -> Any:
    """`text` as the one plain type `part`. Raises ValueError when it is not of it."""
    if "enum" in part or "const" in part:
        for value in part.get("enum", [part.get("const")]):
            if str(value) == text:
                return value
        raise ValueError(text)
    kind = part.get("type")
    if kind == "integer":
        return parse_size(text) if part.get("format") == "bytes" else int(text)
    if kind == "number":
        return float(text)
    if kind == "boolean":
        if text.lower() not in TRUE | FALSE:
            raise ValueError(text)
        return text.lower() in TRUE
    if kind == "array":
        items = part.get("items", {})
        if text.startswith("["):
            return json.loads(text)
        return [parse_text(item.strip(), items, defs) for item in text.split(",") if item.strip()]
    if kind == "object":
        return json.loads(text) if text.startswith("{") else _parse_map(text, part, defs)
    if kind == "string" or kind is None:
        return text
    raise ValueError(text)


def _parse_map(text: str, part: Type, defs: Type | None) -> dict[str, Any]:
    out = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(text)
        out[key.strip()] = parse_text(value.strip(), part.get("additionalProperties") or {}, defs)
    return out


def check_value(value: Any, type_: Type, defs: Type | None = None) -> None:
    """Check type and bounds. Raises ValueError whose message is a clause such as "must be at most 8, found 9"."""
    fitting = [part for part in _choices(type_, defs) if _has_type(value, part, defs)]
    if not fitting:
        raise ValueError(_wrong(value, type_, defs))
    faults = [fault for part in fitting if (fault := _bound_fault(value, part))]
    if len(faults) == len(fitting):
        raise ValueError(f"must be {faults[0]}, found {value!r}")


def _has_type(value: Any, part: Type, defs: Type | None) -> bool:
    if "enum" in part or "const" in part:
        return any(value == one and type(value) is type(one) for one in part.get("enum", [part.get("const")]))
    kind = part.get("type")
    if kind == "integer" and part.get("format") == "bytes" and isinstance(value, str):
        try:
            return isinstance(parse_size(value), int)
        except ValueError:
            return False
    if kind == "array":
        return isinstance(value, list | tuple) and all(_fits(item, part.get("items", {}), defs) for item in value)
    if kind == "object":
        values = value.values() if isinstance(value, Mapping) else ()
        extra = part.get("additionalProperties")
        return isinstance(value, Mapping) and (
            not isinstance(extra, Mapping) or all(_fits(item, extra, defs) for item in values)
        )
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    plain = {"boolean": bool, "string": str, "null": type(None)}.get(kind or "")
    return plain is None or isinstance(value, plain)


def _fits(value: Any, type_: Type, defs: Type | None) -> bool:
    try:
        check_value(value, type_, defs)
    except ValueError:
        return False
    return True


def _bound_fault(value: Any, part: Type) -> str:
    """What a value of the right type should have been, or "" when it is within bounds."""
    if part.get("format") == "bytes":
        value = parse_size(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    checks = (
        ("minimum", lambda bound: value >= bound, "at least"),
        ("exclusiveMinimum", lambda bound: value > bound, "more than"),
        ("maximum", lambda bound: value <= bound, "at most"),
        ("exclusiveMaximum", lambda bound: value < bound, "less than"),
        ("multipleOf", lambda bound: value % bound == 0, "a multiple of"),
    )
    for key, holds, words in checks:
        if key in part and not holds(part[key]):
            return f"{words} {part[key]}"
    return ""
