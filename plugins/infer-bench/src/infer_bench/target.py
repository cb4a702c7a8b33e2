"""A server that is measured: where it is, what it is called, and what it tells of itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from infer_api.errors import ConfigError, InferError

__all__ = ["Target", "TokenCounter", "find_counter", "learn", "open_session"]

_log = logging.getLogger(__name__)

# Below the idle time after which common servers close a connection, so that none is used while it is being closed.
IDLE_S = 2.0


@dataclass(frozen=True)
class Target:
    """One server. `name` is its column in tables, `command` how it was started, if this benchmark did it."""

    name: str
    base_url: str
    endpoint: str
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    vocab_size: int | None = None
    command: tuple[str, ...] = ()

    @classmethod
    def at(cls, name: str, url: str, endpoint: str, **more: Any) -> Target:
        """The server at `url`, which may end in /v1 as clients of the OpenAI API write it. Raises ConfigError."""
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"a server's address must begin with http:// or https://, found {url!r}")
        return cls(name, url.rstrip("/").removesuffix("/v1"), endpoint, **more)

    @property
    def is_chat(self) -> bool:
        return self.endpoint.endswith("/chat/completions")

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def facts(self) -> dict[str, Any]:
        """Plain data for files; without the key."""
        return {
            "name": self.name,
            "base_url": self.base_url,
            "endpoint": self.endpoint,
            "model": self.model,
            "command": list(self.command),
        }


def open_session(target: Target, request_timeout_s: float) -> aiohttp.ClientSession:
    """A session with any number of connections, and no proxy. To be used as a context."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S),
        timeout=aiohttp.ClientTimeout(total=request_timeout_s),
        headers=target.headers,
    )


async def learn(target: Target, session: aiohttp.ClientSession, ready_timeout_s: float) -> Target:
    """The target with its model's name and vocabulary, once it answers.

    Raises InferError when it does not answer in time, or lists no model while none was named.
    """
    models = await _models(target, session, ready_timeout_s)
    names = [str(entry.get("id")) for entry in models]
    model = target.model or (names[0] if names else None)
    if model is None:
        raise ConfigError(f"{target.base_url} lists no models; name one with --served-model")
    entry = next((each for each in models if each.get("id") == model), {})
    size = entry.get("vocab_size")
    return replace(target, model=model, vocab_size=target.vocab_size or (size if isinstance(size, int) else None))


async def _models(target: Target, session: aiohttp.ClientSession, ready_timeout_s: float) -> list[dict[str, Any]]:
    url, loop = f"{target.base_url}/v1/models", asyncio.get_running_loop()
    deadline, is_told = loop.time() + ready_timeout_s, False
    while True:
        try:
            async with session.get(url, timeout=aiohttp.ClientTimeout(total=30)) as reply:
                if reply.status == 200:
                    return list((await reply.json(content_type=None)).get("data") or ())
                said = f"HTTP {reply.status}: {(await reply.text())[:200]}"
                if reply.status in (401, 403):
                    raise ConfigError(f"{url} wants an API key (--api-key or INFER_API_KEY): {said}")
                if reply.status == 404 and target.model is not None:
                    return []
        except aiohttp.ClientConnectorCertificateError as error:
            raise ConfigError(f"{url}: {error.certificate_error}; SSL_CERT_FILE names further ones to trust") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            said = str(error) or type(error).__name__
        except (ValueError, AttributeError) as error:
            raise InferError(f"{url} did not answer with a list of models: {error}") from error
        if loop.time() > deadline:
            raise InferError(f"{url} was not ready within {ready_timeout_s:g} s (--ready-timeout): {said}")
        if not is_told:
            _log.warning("waiting for %s, %g s at most (--ready-timeout): %s", target.base_url, ready_timeout_s, said)
            is_told = True
        await asyncio.sleep(0.1)


@dataclass(frozen=True)
class TokenCounter:
    """Counts tokens of texts with the server's own /tokenize."""

    session: aiohttp.ClientSession
    target: Target

    async def count(self, text: str) -> int:
        """Tokens of `text` as a prompt of the endpoint; what a chat template adds is not counted. Raises InferError."""
        async with self.session.post(f"{self.target.base_url}/tokenize", json=self._body(text)) as reply:
            if reply.status != 200:
                raise InferError(f"/tokenize answered {reply.status}: {(await reply.text())[:200]}")
            return int((await reply.json())["count"])

    def _body(self, text: str) -> dict[str, Any]:
        return {"model": self.target.model, "prompt": text, "add_special_tokens": not self.target.is_chat}


async def find_counter(target: Target, session: aiohttp.ClientSession) -> TokenCounter | None:
    """A counter for the target, None when it has no /tokenize of this kind."""
    counter = TokenCounter(session, target)
    try:
        await counter.count("one two")
    except (InferError, aiohttp.ClientError, ValueError, KeyError, TypeError):
        return None
    return counter
