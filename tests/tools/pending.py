"""Requests that run in threads while something happens to their server."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx

__all__ = ["Pending"]

ASKED = {"prompt": "Seven green bottles", "temperature": 0, "ignore_eos": True}


class Pending:
    """One request to `/v1/completions`; `outcome` is what its client saw, "STATUS BODY" or "cut off: ERROR".

    `ended_at` is when (`time.monotonic`).
    """

    def __init__(self, url: str, **body: Any) -> None:
        self.first_byte = threading.Event()
        self.outcome = ""
        self.ended_at = 0.0
        self._thread = threading.Thread(target=self._run, args=(url, {**ASKED, **body}))
        self._thread.start()

    def _run(self, url: str, body: dict[str, Any]) -> None:
        try:
            with (
                httpx.Client(base_url=url, timeout=30.0, trust_env=False) as http,
                http.stream("POST", "/v1/completions", json=body) as reply,
            ):
                parts = []
                for part in reply.iter_text():
                    self.first_byte.set()
                    parts.append(part)
                self.outcome = f"{reply.status_code} {''.join(parts)}"
        except httpx.TransportError as error:
            self.outcome = f"cut off: {error!r}"
        self.ended_at = time.monotonic()

    def join(self) -> str:
        """The outcome; raises AssertionError when there is none within 20 seconds."""
        self._thread.join(20)
        assert not self._thread.is_alive(), "the request still waits for an answer"
        return self.outcome
