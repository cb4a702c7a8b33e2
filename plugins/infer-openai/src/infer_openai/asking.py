"""What a request says beside its prompt and its sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request

from infer_api.services import Rendered
from infer_openai.bodies import SamplingBody

__all__ = ["origin", "placed"]


def origin(request: Request) -> dict[str, str]:
    """Where a request comes from, for logs and traces: the id that the server's logs know it by, and `traceparent`."""
    client_id = str(request.scope.get("state", {}).get("request_id", ""))
    return {"client_id": client_id, "traceparent": request.headers.get("traceparent", "")}


def placed(prompts: Sequence[Rendered], body: SamplingBody) -> list[Rendered]:
    """`prompts` with their place in the queue and in the cache."""
    priority, salt = body.priority or 0, body.cache_salt or ""
    return [replace(prompt, priority=priority, cache_salt=salt) for prompt in prompts]
