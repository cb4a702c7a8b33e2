"""What one request says to the processor."""

from __future__ import annotations

from pydantic import Field, model_validator

from infer_api.options import Options

__all__ = ["NoRepeatNgramParameters"]


class NoRepeatNgramParameters(Options):
    """Parameters of `no_repeat_ngram` in one request."""

    size: int = Field(ge=1, le=64, strict=True)
    """Tokens of the sequences that may occur once only."""
    window: int | None = Field(default=None, ge=1, strict=True)
    """How many of the last tokens are looked at, at least `size`. Unset: prompt and answer as a whole."""

    @model_validator(mode="after")
    def _window_holds_a_sequence(self) -> NoRepeatNgramParameters:
        if self.window is not None and self.window < self.size:
            raise ValueError(f"window {self.window} holds no sequence of {self.size} tokens; it must be at least size")
        return self
