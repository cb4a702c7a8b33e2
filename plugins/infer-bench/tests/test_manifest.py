from __future__ import annotations

import json
from pathlib import Path

import infer_bench
from infer_api.manifest import write_manifest
from infer_bench.command import BenchCommand
from infer_bench.manifest import BENCH


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_bench", check=True)


def test_the_implementation_is_the_command() -> None:
    module, _, name = BENCH.implementation.partition(":")
    assert (module, name) == (BenchCommand.__module__, BenchCommand.__name__)


def test_the_flags_are_those_of_the_options() -> None:
    (entry,) = json.loads(Path(infer_bench.__path__[0], "infer-plugin.json").read_text())["plugins"]
    assert list(entry["options"]["properties"]) == [
        "input_len",
        "output_len",
        "num_prompts",
        "seed",
        "warmup",
        "repeat",
        "json",
        "against",
    ]
    assert all(field["description"] for field in entry["options"]["properties"].values())
