"""What a benchmark runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from infer_api.options import Options

__all__ = ["BenchOptions"]


class BenchOptions(Options):
    """Flags of `infer bench`. Model, dtype, threads and cache are options of the configuration, as for `serve`."""

    model_config = ConfigDict(populate_by_name=True)

    input_len: Annotated[int, Field(gt=0)] = 128
    """Tokens in each prompt; prompts are random token ids."""
    output_len: Annotated[int, Field(gt=0)] = 64
    """Tokens to generate for each prompt; end-of-sequence is ignored."""
    num_prompts: Annotated[int | None, Field(gt=0)] = None
    """Prompts in one run: all at once for throughput (default 32), one after another for latency (default 4)."""
    seed: int = 0
    """Same seed, same prompts."""
    warmup: Annotated[int, Field(ge=0)] = 1
    """Runs that are not counted."""
    repeat: Annotated[int, Field(gt=0)] = 3
    """Runs that are counted; results are their medians."""
    json_file: Annotated[str | None, Field(alias="json")] = None
    """File to write settings, every run and the medians to."""
    against: Literal["transformers"] | None = None
    """Rival that runs in turn with infer on the same folder and prompts: transformers' generate, in float32."""
