"""The processor `no_repeat_ngram`."""

from __future__ import annotations

from infer_api.manifest import LogitsProcessorPlugin
from infer_logits_ngram.parameters import NoRepeatNgramParameters

__all__ = ["NO_REPEAT_NGRAM"]

NO_REPEAT_NGRAM = LogitsProcessorPlugin(
    name="no_repeat_ngram",
    summary="Makes tokens impossible that would repeat a sequence of some length.",
    implementation="infer_logits_ngram.processor:NoRepeatNgram",
    request=NoRepeatNgramParameters,
    priority=50,
)
