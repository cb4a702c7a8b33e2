"""OpenAI-compatible routes: `/v1/models`, `/v1/completions`, `/v1/chat/completions`, `/tokenize`, `/detokenize`."""

from __future__ import annotations

__all__: list[str] = []
