"""Small tokenizers, made by the `tokenizers` library on the spot."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from infer_testkit.small_tokenizers import byte_level_tokenizer, sentencepiece_tokenizer, tokenizer_source
from infer_tokenizer_json.tokenizer import JsonTokenizer


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    return byte_level_tokenizer()


@pytest.fixture(scope="session")
def sentencepiece() -> Tokenizer:
    return sentencepiece_tokenizer()


@pytest.fixture(scope="session")
def source_of():
    return tokenizer_source


@pytest.fixture(scope="session")
def byte_tokenizer(byte_level, source_of) -> JsonTokenizer:
    return JsonTokenizer(source_of(byte_level, eos_ids=(1,)))
