from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import infer_bench
from infer_api.manifest import write_manifest
from infer_bench.command import RUNS, BenchCommand
from infer_bench.manifest import BENCH
from infer_bench.options import BenchOptions, Only


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_bench", check=True)


def test_the_implementation_is_the_command() -> None:
    module, _, name = BENCH.implementation.partition(":")
    assert (module, name) == (BenchCommand.__module__, BenchCommand.__name__)


def test_the_flags_are_those_of_the_options_and_tell_whom_they_are_for() -> None:
    (entry,) = json.loads(Path(infer_bench.__path__[0], "infer-plugin.json").read_text())["plugins"]
    properties = entry["options"]["properties"]
    assert list(properties) == [info.alias or name for name, info in BenchOptions.model_fields.items()]
    assert properties["burstiness"]["description"].startswith("serve, sweep: Shape of")
    assert properties["json"]["flags"] == ["--output"]
    assert all(field["description"] for field in properties.values())


def test_every_subcommand_can_be_run_and_every_flag_is_for_known_ones() -> None:
    names = [name for name, _ in BENCH.supports.subcommands]
    assert names == list(RUNS)
    for module, _, function in (path.partition(":") for path in RUNS.values()):
        assert callable(getattr(import_module(module), function))
    for info in BenchOptions.model_fields.values():
        if isinstance(info.json_schema_extra, Only):
            assert set(info.json_schema_extra.subcommands) <= set(names)
