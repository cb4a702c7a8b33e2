"""`ChoiceLog`: what one choice was and did, told to hooks when it starts and once when it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from infer_api.requests import EngineOutput, EngineRequest
from infer_api.services import RequestRecord

__all__ = ["ChoiceLog", "Notify"]

Notify = Callable[..., object]
"""`notify(hook, **facts)`."""


class ChoiceLog:
    """Times and counts of one engine request. The clock starts when it is made, which is also told to hooks.

    `names` are the fields of RequestRecord that tell where it came from.
    """

    def __init__(self, request: EngineRequest, names: Mapping[str, str], notify: Notify) -> None:
        self._request = request
        self._names = names
        self._notify = notify
        self._started = time.perf_counter()
        self._last: float | None = None
        self._first_token_s: float | None = None
        self._queued_s: float | None = None
        self._gaps_s: list[float] = []
        self._is_told = False
        notify("infer_request_received", request_id=request.request_id, num_prompt_tokens=len(request.prompt_ids))

    def heard(self, output: EngineOutput) -> None:
        """Note the time of an output, when it is handed to whoever reads the stream."""
        now = time.perf_counter()
        if output.queued_s is not None:
            self._queued_s = output.queued_s
        if not output.token_ids:
            return
        if self._last is None:
            self._first_token_s = now - self._started
        else:
            self._gaps_s.append(now - self._last)
        self._last = now

    def end(self, reason: str, num_tokens: int, num_cached: int, error: tuple[str, str] | None = None) -> None:
        """Tell that it has ended, with (code, message) of what went wrong. Only the first call counts."""
        if self._is_told:
            return
        self._is_told = True
        request = self._request
        record = RequestRecord(
            request_id=request.request_id,
            **self._names,
            finish_reason=reason,
            num_prompt_tokens=len(request.prompt_ids),
            num_cached_tokens=num_cached,
            num_generated_tokens=num_tokens,
            arrival_s=request.arrival_s,
            queued_s=self._queued_s,
            first_token_s=self._first_token_s,
            total_s=time.perf_counter() - self._started,
            gaps_s=tuple(self._gaps_s),
            sampling=request.sampling,
            error=error,
        )
        self._notify(
            "infer_request_finished",
            request_id=request.request_id,
            finish_reason=reason,
            num_generated_tokens=num_tokens,
            record=record,
        )
