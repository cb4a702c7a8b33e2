from __future__ import annotations

from typing import Any

import pytest

from infer.config.values import check_value, describe_type, nearest, parse_text

OPTIONAL_INT = {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]}
SIZE = {"type": "integer", "format": "bytes", "exclusiveMinimum": 0}
TEXTS = {"type": "array", "items": {"type": "string"}}
MAP = {"type": "object", "additionalProperties": {"type": "string"}}
MODE = {"enum": ["auto", "inline"], "type": "string"}


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("3", {"type": "integer"}, 3),
        ("0.5", {"type": "number"}, 0.5),
        ("yes", {"type": "boolean"}, True),
        ("OFF", {"type": "boolean"}, False),
        ("a b", {"type": "string"}, "a b"),
        ("none", OPTIONAL_INT, None),
        ("7", OPTIONAL_INT, 7),
        ("512MiB", SIZE, 512 * 2**20),
        ("a, b", TEXTS, ["a", "b"]),
        ('["a,b"]', TEXTS, ["a,b"]),
        ("", TEXTS, []),
        ("a:b=c,d=e", MAP, {"a:b": "c", "d": "e"}),
        ('{"a": "b"}', MAP, {"a": "b"}),
        ("inline", MODE, "inline"),
        ("5", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, 5),
        ("five", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "five"),
        ("2", {"enum": [1, 2]}, 2),
    ],
)
def test_text_becomes_a_value_of_the_type(text: str, type_: dict[str, Any], value: object) -> None:
    found = parse_text(text, type_)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "type_", "words"),
    [
        ("x", {"type": "integer"}, "must be int, found 'x'"),
        ("1.5", {"type": "integer"}, "must be int"),
        ("nan", {"type": "number"}, "must be float"),
        ("maybe", {"type": "boolean"}, "must be bool"),
        ("0", OPTIONAL_INT, "must be more than 0, found 0"),
        ("2 gallons", SIZE, "must be size such as 512MiB or 2GiB, found '2 gallons'"),
        ("inlin", MODE, r"must be auto \| inline, found 'inlin'. Did you mean 'inline'\?"),
        ("a", MAP, "must be map, found 'a'"),
        ("none", {"type": "integer"}, "must be int"),
        ("[1", TEXTS, "must be list of text"),
    ],
)
def test_wrong_text_is_refused_with_what_it_must_be(text: str, type_: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_text(text, type_)


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, {"type": "integer"}),
        ("5", {"type": "integer"}),
        (float("inf"), {"type": "number"}),
        ([1], TEXTS),
        ({"a": 1}, MAP),
        (None, {"type": "string"}),
        (9, {"type": "integer", "maximum": 8}),
        (10, {"type": "integer", "multipleOf": 8}),
        (1.0, {"type": "number", "exclusiveMaximum": 1}),
        ("0", SIZE),
    ],
)
def test_values_of_another_type_or_out_of_bounds_are_refused(value: object, type_: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        check_value(value, type_)


def test_references_are_followed() -> None:
    defs = {"Mode": MODE}
    check_value("auto", {"$ref": "#/$defs/Mode"}, defs)
    with pytest.raises(ValueError, match="auto"):
        check_value("x", {"$ref": "#/$defs/Mode"}, defs)


def test_types_are_described_for_people() -> None:
    assert describe_type(OPTIONAL_INT) == "int"
    assert describe_type({"anyOf": [SIZE, {"type": "null"}]}) == "size"
    assert describe_type(TEXTS) == "list of text"


def test_near_misses_are_offered_only_when_near() -> None:
    assert nearest("prot", ["port", "host"]) == " Did you mean 'port'?"
    assert nearest("zebra", ["port", "host"]) == ""


def test_a_number_beyond_every_float_is_refused() -> None:
    with pytest.raises(ValueError, match="must be float"):
        check_value(10**400, {"type": "number"})


def test_json_nested_without_end_is_of_the_wrong_form() -> None:
    with pytest.raises(ValueError, match="must be list of text"):
        parse_text("[" * 200_000, {"type": "array", "items": {"type": "string"}})
