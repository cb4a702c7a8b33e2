from __future__ import annotations

from infer_chat.conversation import TurnStats


def test_the_speed_of_decoding_leaves_out_the_first_token() -> None:
    stats = TurnStats(prompt_tokens=5, completion_tokens=11, first_s=1.0, total_s=3.0)
    assert stats.tokens_per_s == 5.0
    assert "5.0 tokens/s, first after 1000 ms" in str(stats)
    assert TurnStats(completion_tokens=1, first_s=1.0, total_s=1.0).tokens_per_s == 0.0
