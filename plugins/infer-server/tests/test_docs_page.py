from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

from infer_server.docs_page import page


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


async def test_the_page_shows_every_route_and_loads_nothing(make_client: Callable[..., Any]) -> None:
    async with make_client() as client:
        reply = await client.get("/docs")
        schema = (await client.get("/openapi.json")).json()
    assert reply.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    for path in schema["paths"]:
        assert f"<code>{path}</code>" in reply.text
    tags = Tags()
    tags.feed(reply.text)
    assert {tag for tag, _ in tags.found}.isdisjoint({"script", "link", "img", "iframe"})
    targets = [facts["href"] for tag, facts in tags.found if tag == "a"]
    ids = {facts["id"] for _, facts in tags.found if "id" in facts}
    assert "openapi.json" in targets
    assert {target.removeprefix("#") for target in targets if target.startswith("#")} <= ids
    assert not re.search(r"https?://", reply.text)


def test_texts_of_plugins_cannot_break_the_page() -> None:
    operation = {"description": "<script>alert(1)</script>", "responses": {"200": {"description": '"><b>'}}}
    kinds = {"A": {"properties": {"x": {"enum": ["<i>"], "description": "<u>", "default": "<s>"}}}}
    text = page(
        {
            "info": {"title": "<t>", "version": "1"},
            "paths": {"/<p>": {"get": operation}},
            "components": {"schemas": kinds},
        }
    )
    for tag in ("<script", "<i>", "<u>", "<s>", "<t>", "<p>alert", "/<p>", '"><b>'):
        assert tag not in text
