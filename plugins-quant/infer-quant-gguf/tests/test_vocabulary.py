from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_quant_gguf.errors import GgufMalformed
from infer_quant_gguf.vocabulary import TokenKind, Vocabulary

NORMAL, CONTROL = int(TokenKind.NORMAL), int(TokenKind.CONTROL)


def vocabulary(texts: list[str], kinds: list[int], **more: Any) -> Vocabulary:
    keys = {"tokens": texts, "token_type": kinds, **more}
    return Vocabulary.from_metadata(Path("m.gguf"), {f"tokenizer.ggml.{key}": value for key, value in keys.items()})


def test_generation_ends_at_the_named_ids_and_at_known_turn_ends() -> None:
    found = vocabulary(
        ["a", "<end_of_turn>", "<eot>", "<eos>"], [1, CONTROL, CONTROL, CONTROL], eos_token_id=3, eot_token_id=2
    )
    assert found.eos_ids() == (3, 2, 1)


def test_a_turn_end_that_is_plain_text_ends_nothing() -> None:
    assert vocabulary(["a", "<|im_end|>"], [NORMAL, NORMAL], eos_token_id=0).eos_ids() == (0,)


def test_empty_texts_get_a_name_so_that_ids_stay_apart() -> None:
    assert vocabulary(["a", "", ""], [1, 1, 1]).ids == {"a": 0, "[EMPTY_1]": 1, "[EMPTY_2]": 2}


@pytest.mark.parametrize("index", [-1, 2, "1"])
def test_an_id_outside_of_the_vocabulary_is_malformed(index: Any) -> None:
    with pytest.raises(GgufMalformed, match="bos_token_id"):
        vocabulary(["a", "b"], [1, 1], bos_token_id=index)


def test_without_kinds_all_tokens_are_normal() -> None:
    found = Vocabulary.from_metadata(Path("m.gguf"), {"tokenizer.ggml.tokens": ["a", "b"]})
    assert found.added_tokens() == []
