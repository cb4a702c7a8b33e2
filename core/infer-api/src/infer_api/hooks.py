"""Hook specifications (pluggy, entry-point group `infer.hooks`): "by the way" extension points.

Arguments are passed by keyword and only ever grow; an implementation takes the subset it needs. A hook
that raises is logged with its plugin's name and changes nothing. No hook runs in the token loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from infer_api.services import RequestRecord

__all__ = ["HOOK_PROJECT", "InferHooks", "hookimpl", "hookspec"]

HOOK_PROJECT = "infer"

hookspec = pluggy.HookspecMarker(HOOK_PROJECT)
hookimpl = pluggy.HookimplMarker(HOOK_PROJECT)


class InferHooks:
    """All hooks of infer."""

    @hookspec
    def infer_engine_started(self, model: str, facts: dict[str, Any]) -> None:
        """The engine is ready to serve.

        Called once, in the process that talks to the engine. `facts` is plain data (capacity_tokens, device, …).
        """

    @hookspec
    def infer_request_received(self, request_id: str, num_prompt_tokens: int) -> None:
        """A sequence was accepted and goes to the engine. Called once per choice, in the serving process."""

    @hookspec
    def infer_request_finished(
        self, request_id: str, finish_reason: str, num_generated_tokens: int, record: RequestRecord
    ) -> None:
        """A sequence has ended, however it ended. Called once per choice, in the serving process.

        `finish_reason` is stop, length, abort (its client left), rejected (the engine refused it) or error.
        """

    @hookspec
    def infer_response_sent(self, method: str, route: str, status: int, duration_s: float) -> None:
        """The server has answered a request to its end. Called once per HTTP request.

        `route` is the path as declared, "" where none matched; `status` is 499 when the client left before.
        """

    @hookspec
    def infer_shutdown(self) -> None:
        """The serving side is about to stop. Called once, before the engine is closed."""
