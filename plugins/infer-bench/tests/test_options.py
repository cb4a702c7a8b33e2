from __future__ import annotations

import pytest
from pydantic import ValidationError

from infer_api.errors import ConfigError
from infer_bench.options import BenchOptions, check_used, plain


def test_the_file_is_called_json_on_the_command_line() -> None:
    assert BenchOptions.model_validate_json('{"json": "out.json"}').json_file == "out.json"


@pytest.mark.parametrize("fields", ['{"input_len": 0}', '{"repeat": 0}', '{"warmup": -1}', '{"against": "nobody"}'])
def test_values_out_of_bounds_are_refused(fields: str) -> None:
    with pytest.raises(ValidationError):
        BenchOptions.model_validate_json(fields)


def test_a_flag_that_would_not_be_heeded_is_refused() -> None:
    check_used(BenchOptions(seed=1, repeat=2), "serve")
    check_used(BenchOptions(burstiness=2.0), "sweep")
    with pytest.raises(ConfigError, match="--request-rate is for serve; infer bench latency"):
        check_used(BenchOptions(request_rate="2"), "latency")
    with pytest.raises(ConfigError, match="--json is for throughput and latency and serve and startup"):
        check_used(BenchOptions(json_file="x.json"), "sweep")


def test_plain_options_are_those_that_the_subcommand_heeds() -> None:
    options = plain(BenchOptions(goodput=("ttft:5",)), "serve")
    assert options["goodput"] == ["ttft:5"]
    assert {"seed", "input_len", "burstiness"} <= set(options)
    assert not {"against", "warmup", "vary"} & set(options)
