from __future__ import annotations

import pytest
from pydantic import ValidationError

from infer_api.services import ModelCard
from infer_chat.options import ChatOptions, SamplingOptions

CARD = ModelCard("tiny", (), 128, 100, 0, True, {"top_k": 7, "temperature": 0.5})


def test_what_is_said_wins_over_the_checkpoint_and_the_rest_is_the_checkpoint_s() -> None:
    sampling = SamplingOptions(temperature=0, max_tokens=9).sampling(CARD)
    assert (sampling.temperature, sampling.max_tokens, sampling.top_k, sampling.top_p) == (0.0, 9, 7, 1.0)


def test_the_system_message_is_no_sampling_parameter() -> None:
    assert ChatOptions(system="s").sampling(CARD) == SamplingOptions().sampling(CARD)


@pytest.mark.parametrize("field", [{"max_tokens": 0}, {"temperature": -1}, {"top_k": -1}, {"top_p": -0.1}, {"topk": 1}])
def test_values_out_of_bounds_and_unknown_names_are_refused(field: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        SamplingOptions.model_validate(field)
