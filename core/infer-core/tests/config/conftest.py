"""A plugin index made by hand: two attention plugins with options, one of them unusable."""

from __future__ import annotations

import pytest

from infer.config.schema import read_schema
from infer.config.table import OptionTable
from infer.plugins.discovery import PluginIndex, PluginRecord

OPTIONS = {
    "type": "object",
    "properties": {
        "num_splits": {"type": "integer", "minimum": 1, "default": 4, "description": "Parts of a long row."},
        "fused": {"type": "boolean", "default": False, "description": "Fuse the last two steps."},
        "mode": {"$ref": "#/$defs/Mode", "default": "fast"},
        "token": {
            "type": "string",
            "default": "",
            "flags": ["--wave-token", "--port"],
            "env": ["WAVE_TOKEN", "INFER_HOME"],
            "secret": True,
        },
    },
    "$defs": {"Mode": {"enum": ["fast", "exact"], "type": "string"}},
}

FAMILY = {"type": "object", "properties": {"num_splits": {"type": "integer", "default": 1}}}


@pytest.fixture
def index() -> PluginIndex:
    data = {"summary": "Waves.", "priority": 10, "options": OPTIONS, "options_class": "x:Y"}
    return PluginIndex(
        [
            PluginRecord("attention", "wave", "acme-wave", "1.0", "acme_wave", data, state="compatible"),
            PluginRecord("attention", "broken", "acme-broken", "1.0", "acme_broken", {}, "failed", "it needs a moon"),
            PluginRecord("models", "family", "acme-family", "1.0", "acme_family", {"options": FAMILY}, "compatible"),
        ]
    )


@pytest.fixture
def table(index: PluginIndex) -> OptionTable:
    return OptionTable(read_schema(), index)
