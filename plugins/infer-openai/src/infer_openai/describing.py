"""What the server's OpenAPI says of these routes beyond their signatures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, WithJsonSchema, create_model

from infer_openai.bodies import Processors, SamplingBody
from infer_openai.replies import ErrorReply

__all__ = ["described", "responses"]

B = TypeVar("B", bound=SamplingBody)


def responses(reply: type[BaseModel], *, streams: bool = False) -> dict[int | str, dict[str, Any]]:
    """Replies of a route: `reply`, as events with `stream: true`, or an error."""
    done: dict[str, Any] = {"model": reply, "description": "The reply."}
    if streams:
        text = "With `stream: true`: events `data: {…}` with parts of the reply; the last one is `data: [DONE]`."
        done |= {"description": text, "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    return {
        200: done,
        "4XX": {"model": ErrorReply, "description": "The request is wrong; `param` names the field."},
        "5XX": {"model": ErrorReply, "description": "The request failed (500), or cannot be served now (503)."},
    }


def described(body: type[B], processors: Mapping[str, Mapping[str, Any]]) -> type[B]:
    """`body`, whose schema says which logits processors there are and what each of them takes."""
    old = body.model_fields["logits_processors"]
    properties = {name: _inlined(schema, schema.get("$defs", {})) for name, schema in processors.items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    kind = Annotated[Processors | None, WithJsonSchema({"anyOf": [schema, {"type": "null"}]})]
    field = Field(default=None, description=old.description)
    fields: dict[str, Any] = {"logits_processors": (kind, field)}
    made: type[B] = create_model(body.__name__, __base__=body, __doc__=body.__doc__, **fields)
    return made


def _inlined(schema: Any, definitions: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """`schema` without references: its definitions are not where the OpenAPI document would look for them.

    A definition within itself is left open.
    """
    if isinstance(schema, list):
        return [_inlined(each, definitions, within) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name in within:
        return {}
    rest = {key: _inlined(value, definitions, within) for key, value in schema.items() if key not in ("$ref", "$defs")}
    return {**_inlined(definitions[name], definitions, (*within, name)), **rest} if name else rest
