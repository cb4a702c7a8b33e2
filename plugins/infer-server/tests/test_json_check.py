from __future__ import annotations

import time

import pytest

from infer_api.errors import RequestError
from infer_server.json_check import check_json

MAX_DEPTH = 100


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{not json", "line 1 column 2"),
        (b"\xff\xfe", "byte 0"),
        (b'{"a": "\xc3"}', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'{"prompt": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"a": 1, "b": {"x": 1, "x": 2}}', '"x" occurs twice'),
        (b"NaN", "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b"1" * 5000, "digits"),
        (b"[" * 100_000, "deeper"),
        (b"[" * 100_000 + b"]" * 100_000, "deeper"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "deeper"),
        (b'{"a": 1} x', "Extra data"),
    ],
)
def test_what_is_no_strict_json_is_refused_with_the_reason(body: bytes, says: str) -> None:
    with pytest.raises(RequestError, match=says) as caught:
        check_json(body, MAX_DEPTH)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b"[" + b",".join([b"[1]"] * 1000) + b"]",
        b'{"a": "' + b"[" * 1000 + b'\\"["}',
        '{"smile": "\\ud83d\\ude00", "plain": "😀"}'.encode(),
        b'{"a": "\\\\ud800"}',
    ],
)
def test_strict_json_passes(body: bytes) -> None:
    check_json(body, MAX_DEPTH)


def test_a_megabyte_of_escaped_quotes_takes_no_quadratic_time() -> None:
    started = time.process_time()
    check_json(b"[" * 90 + b'"' + b'\\"' * 500_000 + b'"' + b"]" * 90, MAX_DEPTH)
    assert time.process_time() - started < 2


def test_the_depth_is_the_one_that_was_set_and_the_text_names_the_option() -> None:
    check_json(b"[" * 500 + b"]" * 500, 500)
    with pytest.raises(RequestError, match=r"deeper than 3 levels \(server.max_json_depth\)"):
        check_json(b"[[[[]]]]", 3)


@pytest.mark.parametrize("body", [b'{"n": ' + b"1" * 5000 + b"}", b"-" + b"9" * 4301])
def test_an_endless_integer_is_refused_without_advice_on_python(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        check_json(body, MAX_DEPTH)
    assert str(caught.value) == "the body is not valid JSON: a number has more than 4300 digits"


@pytest.mark.parametrize("tail", [b"", b"\\"])
def test_a_megabyte_in_a_string_that_never_ends_takes_no_quadratic_time(tail: bytes) -> None:
    started = time.process_time()
    with pytest.raises(RequestError, match="JSON"):
        check_json(b"[" * 90 + b"]" * 90 + b'"' + b'\\"\n[' * 300_000 + tail, MAX_DEPTH)
    assert time.process_time() - started < 2


def test_megabytes_of_brackets_are_refused_before_they_are_parsed() -> None:
    started = time.process_time()
    with pytest.raises(RequestError, match="deeper"):
        check_json(b"[" * 101 + b"[]," * 2_000_000 + b"0" + b"]" * 101, MAX_DEPTH)
    assert time.process_time() - started < 0.3
