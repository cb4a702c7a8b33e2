from __future__ import annotations

import pytest

from infer_api.errors import RequestError
from infer_openai.prompts import read_prompts


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", ["a"]),
        ("", [""]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        ([[]], [[]]),
        (["a", [1]], ["a", [1]]),
    ],
)
def test_each_shape_becomes_a_list_of_prompts(prompt: object, expected: object) -> None:
    assert read_prompts(prompt) == expected


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (5, "prompt"),
        ({}, "prompt"),
        ([], "prompt"),
        ([1, "a"], "prompt[1]"),
        ([1, True], "prompt[1]"),
        (["a", 1], "prompt[1]"),
        ([[1], ["b"]], "prompt[1][0]"),
        ([[1], [2.0]], "prompt[1][0]"),
        ([None], "prompt[0]"),
        ([True], "prompt[0]"),
    ],
)
def test_anything_else_is_refused_with_its_place(prompt: object, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_prompts(prompt)
    assert (caught.value.param, caught.value.status) == (param, 400)
