"""Logits processors that requests may ask for: their parameters are checked here, before the engine hears of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from infer.config.values import nearest
from infer.plugins.discovery import PluginIndex
from infer.plugins.pluginset import PluginSet
from infer_api.errors import RequestError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["FIELD", "CheckParameters", "ProcessorOffer", "check_processors", "processor_offers"]

FIELD = "logits_processors"
"""How requests call it."""
CheckParameters = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Parameters as a client sent them → as plain data with all defaults. Raises RequestError (400)."""


@dataclass(frozen=True)
class ProcessorOffer:
    """One processor. `schema` is the JSON schema of its parameters, `load` imports their class."""

    name: str
    schema: Mapping[str, Any]
    load: Callable[[], type[BaseModel]]

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Raises RequestError naming the parameter, PluginError when the plugin's code cannot be imported."""
        request_class = self.load()
        try:
            # Lax JSON mode, as for options: a tuple is written as a list.
            checked = request_class.model_validate_json(json.dumps(given, allow_nan=False))
        except ValueError as error:  # pydantic.ValidationError is one, and knows its errors
            raise self._refusal(error) from None
        plain: dict[str, Any] = checked.model_dump(mode="json")
        try:
            msgspec.msgpack.encode(plain)  # as it will go to the engine, which takes no integer of more than 64 bits
        except (OverflowError, TypeError) as error:
            raise self._refusal(ValueError(str(error))) from None
        return plain

    def _refusal(self, error: ValueError) -> RequestError:
        where = f"{FIELD}.{self.name}"
        if not hasattr(error, "errors"):
            return RequestError(f"{where}: {error}", param=where)
        first = error.errors()[0]
        path = ".".join((where, *map(str, first["loc"])))
        known = self.schema.get("properties", {})
        hint = nearest(str(first["loc"][0])[:60], list(known)) if first["type"] == "extra_forbidden" else ""
        return RequestError(f"{path}: {first['msg']}, found {first['input']!r:.60}.{hint}", param=path)


def processor_offers(index: PluginIndex, plugin_set: PluginSet) -> tuple[ProcessorOffer, ...]:
    """The processors among the chosen plugins; their code is imported when a request asks for them."""
    records = [each for each in index.records(FIELD) if each.state != "failed"]
    schemas = {(each.name, each.distribution): each.data["request"] for each in records}
    return tuple(
        ProcessorOffer(
            each.name,
            schemas[each.name, each.distribution],
            partial(plugin_set.request_class, FIELD, f"{each.distribution}/{each.name}"),
        )
        for each in plugin_set.entries
        if each.kind == FIELD
    )


def check_processors(given: Any, known: Mapping[str, CheckParameters]) -> dict[str, dict[str, Any]]:
    """Processors of one request with validated parameters. Raises RequestError (400) naming what is wrong."""
    if not isinstance(given, Mapping):
        raise RequestError(
            f"{FIELD} must be an object of processor -> its parameters, found {given!r:.60}", param=FIELD
        )
    checked = {}
    for name, parameters in given.items():
        path = f"{FIELD}.{str(name)[:60]}"
        if name not in known:
            there_is = f"this server has: {', '.join(known)}" if known else "this server has none"
            message = f"{path}: no such logits processor; {there_is}.{nearest(str(name)[:60], list(known))}"
            raise RequestError(message, param=path, code="unknown_processor")
        if not isinstance(parameters, Mapping):
            raise RequestError(f"{path} must be an object of parameters, found {parameters!r:.60}", param=path)
        checked[name] = known[name](parameters)
    return checked
