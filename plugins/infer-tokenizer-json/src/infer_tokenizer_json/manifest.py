"""The tokenizer `json`."""

from __future__ import annotations

from infer_api.manifest import TokenizerPlugin, TokenizerSupport

__all__ = ["JSON"]

JSON = TokenizerPlugin(
    name="json",
    summary="Any tokenizer.json, through the `tokenizers` library.",
    implementation="infer_tokenizer_json.tokenizer:JsonTokenizer",
    supports=TokenizerSupport(formats=frozenset({"tokenizer.json"})),
    priority=50,
)
