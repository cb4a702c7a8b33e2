from __future__ import annotations

import inspect

import pluggy

from infer_api.hooks import HOOK_PROJECT, InferHooks

SPECS = {name: value for name, value in vars(InferHooks).items() if name.startswith("infer_")}


def test_pluggy_knows_every_specification() -> None:
    manager = pluggy.PluginManager(HOOK_PROJECT)
    manager.add_hookspecs(InferHooks)
    assert {name for name in vars(manager.hook) if name.startswith("infer_")} == set(SPECS)


def test_there_are_fewer_than_fifteen_and_each_says_when_it_is_called() -> None:
    assert 0 < len(SPECS) < 15
    assert [name for name, spec in SPECS.items() if "Called once" not in (inspect.getdoc(spec) or "")] == []
