"""/docs: the OpenAPI schema as one page of plain HTML. No script, and nothing from another host."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse

__all__ = ["docs_router", "page"]

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2{margin-top:2.5rem;font-size:1.1rem;border-top:1px solid #ddd;padding-top:1rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0}td,th{text-align:left;vertical-align:top;padding:.25rem .5rem}
tr{border-bottom:1px solid #eee}code{background:#f3f3f3;padding:0 .2rem;border-radius:3px}b.method{color:#06c}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code{background:#2b2b2b}tr{border-color:#333}}
"""
_SAFE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}

Schema = Mapping[str, Any]


def docs_router(schema: Callable[[], Schema]) -> APIRouter:
    """The route /docs; `schema` gives the OpenAPI schema of the app."""
    router = APIRouter()

    @router.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page(schema()), headers=_SAFE)

    return router


def page(schema: Schema) -> str:
    """The whole page."""
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    kinds = schema.get("components", {}).get("schemas", {})
    body = "\n".join([*_operations(schema), *_kinds(kinds)])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>"
        f'<body><h1>{title}</h1><p>The same as data: <a href="openapi.json">openapi.json</a></p>{body}</body></html>'
    )


def _operations(schema: Schema) -> Iterator[str]:
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            yield f'<h2><b class="method">{escape(method.upper())}</b> <code>{escape(path)}</code></h2>'
            yield f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>"
            yield from _inputs(operation)
            rows = ((escape(code), escape(reply.get("description", ""))) for code, reply in _replies(operation))
            yield _table(("status", "answer"), rows)


def _inputs(operation: Schema) -> Iterator[str]:
    parameters = operation.get("parameters", ())
    if parameters:
        rows = (
            (f"<code>{escape(one['name'])}</code>", escape(one["in"]), _type(one.get("schema", {})))
            for one in parameters
        )
        yield _table(("parameter", "in", "type"), rows)
    content = operation.get("requestBody", {}).get("content", {})
    for kind, body in content.items():
        yield f"<p>Body, <code>{escape(kind)}</code>: {_type(body.get('schema', {}))}</p>"


def _replies(operation: Schema) -> list[tuple[str, Schema]]:
    return [(str(code), reply) for code, reply in operation.get("responses", {}).items()]


def _kinds(kinds: Schema) -> Iterator[str]:
    for name, kind in kinds.items():
        yield f'<h2 id="{escape(name)}">{escape(name)}</h2><p>{escape(kind.get("description", ""))}</p>'
        required = kind.get("required", ())
        rows = (
            (f"<code>{escape(field)}</code>{' *' if field in required else ''}", _type(facts), _about(facts))
            for field, facts in kind.get("properties", {}).items()
        )
        yield _table(("field (* is required)", "type", "about"), rows) if "properties" in kind else _type(kind)


def _about(facts: Schema) -> str:
    default = f" Default: {json.dumps(facts['default'])}." if "default" in facts else ""
    return escape(facts.get("description", "") + default)


def _type(facts: Any) -> str:
    """A JSON schema in a few words, with links to the kinds that have a name."""
    if not isinstance(facts, Mapping):
        return "any"
    if "$ref" in facts:
        name = escape(facts["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for key in ("anyOf", "oneOf", "allOf"):
        if key in facts:
            return " or ".join(_type(part) for part in facts[key])
    if "enum" in facts or "const" in facts:
        return " or ".join(f"<code>{escape(json.dumps(one))}</code>" for one in facts.get("enum", [facts.get("const")]))
    if facts.get("type") == "array":
        return f"list of ({_type(facts.get('items', {}))})"
    if facts.get("type") == "object" and isinstance(facts.get("additionalProperties"), Mapping):
        return f"map of ({_type(facts['additionalProperties'])})"
    return escape(str(facts.get("type", "any")))


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{escape(word)}</th>' for word in head)}</tr>{cells}</table>"
