"""Logits processors of this worker: plugins made once, and one row processor of each for every request that asks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infer.plugins.pluginset import PluginSet
from infer_api.processors import LogitsProcessor, ProcessorContext, RowProcessor
from infer_api.requests import RowError

__all__ = ["Processors", "processor_failure"]


class Processors:
    """`names` are those of plugins in `plugins`; requests say the bare name, or "distribution/name"."""

    def __init__(self, names: Sequence[str], plugins: PluginSet, context: ProcessorContext) -> None:
        self._context = context
        self._made: dict[str, tuple[LogitsProcessor, Any]] = {}
        for name in names:
            made = plugins.make("logits_processors", name), plugins.request_class("logits_processors", name)
            self._made[name] = made
            self._made.setdefault(name.rpartition("/")[2], made)

    def rows(
        self, asked: Mapping[str, Mapping[str, Any]], num_prompt: int
    ) -> tuple[tuple[str, RowProcessor], ...] | RowError:
        """(name, row processor) for each processor of one request, in order; or why there is none."""
        rows = []
        for name, parameters in asked.items():
            if name not in self._made:
                return RowError(f"the logits processor {name!r} is not loaded in the worker", "processor_failed")
            processor, request_class = self._made[name]
            try:
                # JSON, since parameters came as such: a tuple is written as a list.
                checked = request_class.model_validate_json(json.dumps(parameters))
                rows.append((name, processor.row(checked, num_prompt, self._context)))
            except BaseException as error:  # noqa: BLE001 - foreign code; the plugin is named
                return processor_failure(name, error)
        return tuple(rows)


def processor_failure(name: str, error: BaseException) -> RowError:
    """What the request hears when code of the processor `name` raises."""
    return RowError(f"the logits processor {name!r} failed: {type(error).__name__}: {error}", "processor_failed")
