from __future__ import annotations

import pytest
from pydantic import ValidationError

from infer_bench.options import BenchOptions


def test_the_file_is_called_json_on_the_command_line() -> None:
    assert BenchOptions.model_validate_json('{"json": "out.json"}').json_file == "out.json"


@pytest.mark.parametrize("fields", ['{"input_len": 0}', '{"repeat": 0}', '{"warmup": -1}', '{"against": "nobody"}'])
def test_values_out_of_bounds_are_refused(fields: str) -> None:
    with pytest.raises(ValidationError):
        BenchOptions.model_validate_json(fields)
