from __future__ import annotations

from infer_api.manifest import write_manifest
from infer_tokenizer_json.manifest import JSON
from infer_tokenizer_json.tokenizer import JsonTokenizer


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_tokenizer_json", check=True)


def test_the_implementation_is_the_tokenizer() -> None:
    assert JSON.implementation == f"{JsonTokenizer.__module__}:{JsonTokenizer.__name__}"
