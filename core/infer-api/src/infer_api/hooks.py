"""Hook specifications (pluggy, entry-point group `infer.hooks`): "by the way" extension points.

Arguments are passed by keyword and only ever grow; an implementation takes the subset it needs. A hook
that raises is logged with its plugin's name and changes nothing. No hook runs in the token loop.
"""

from __future__ import annotations

from typing import Any

import pluggy

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
    def infer_request_finished(self, request_id: str, finish_reason: str, num_generated_tokens: int) -> None:
        """A sequence has ended, however it ended. Called once per choice, in the serving process."""

    @hookspec
    def infer_shutdown(self) -> None:
        """The serving side is about to stop. Called once, before the engine is closed."""
