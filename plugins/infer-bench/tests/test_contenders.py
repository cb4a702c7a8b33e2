from __future__ import annotations

from typing import Any

import pytest

from infer_api.errors import InferError
from infer_api.requests import SamplingParams
from infer_bench.contenders import InferBatch, InferStream

GREEDY = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=5)


def test_a_batch_goes_to_the_llm_at_once(context: Any) -> None:
    contender = InferBatch(context)
    contender.generate([[1, 2], [3, 4]], 5)
    assert context.engine.calls == [([[1, 2], [3, 4]], GREEDY)]
    assert contender.vocab_size == 50
    contender.close()
    assert context.engine.num_closed == 1


def test_a_stream_gives_one_rising_time_per_token(context: Any) -> None:
    contender = InferStream(context)
    times = contender.token_times([1, 2], 5)
    assert context.engine.calls == [([[1, 2]], GREEDY)]
    assert len(times) == 5
    assert times == sorted(times)
    assert times[0] > 0
    contender.close()
    assert context.engine.num_closed == 1


def test_too_few_tokens_are_an_error(context: Any) -> None:
    context.engine.lost_tokens = 1
    with pytest.raises(InferError, match="4 tokens instead of 5"):
        InferBatch(context).generate([[1]], 5)
    stream = InferStream(context)
    with pytest.raises(InferError, match="4 tokens instead of 5"):
        stream.token_times([1], 5)
    stream.close()
