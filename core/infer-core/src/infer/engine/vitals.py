"""Signs of life: how long an engine has been silent, or busy with one piece of work, and when that is too long.

Both are counted in ticks of whoever watches, not read from a clock: a process that was stopped or suspended has no
ticks, so the time it slept through is not held against the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Patience", "Vitals", "WorkClock"]


@dataclass(frozen=True)
class Patience:
    """Seconds after which a silent engine is not ready, after which it is lost, and that one step may take."""

    silence_s: float = 2.0
    kill_s: float = 8.0
    step_s: float = 120.0


class WorkClock:
    """How long the same piece of work has been under way."""

    def __init__(self, interval_s: float) -> None:
        self.busy_s = 0.0
        self._interval_s = interval_s
        self._serial = 0

    def tick(self, serial: int) -> float:
        """To be called every `interval_s` with `EngineLoop.work`; returns the seconds so far, 0 when idle."""
        goes_on = serial % 2 == 1 and serial == self._serial
        self.busy_s = self.busy_s + self._interval_s if goes_on else 0.0
        self._serial = serial
        return self.busy_s


@dataclass
class Vitals:
    """What is known of an engine's life; `silence_s` and `step_s` are kept up by its client."""

    patience: Patience
    silence_s: float = 0.0
    step_s: float = 0.0

    def complaint(self) -> str:
        """Why the engine is not ready; empty when it is well."""
        return self._beyond(self.patience.silence_s, self.patience.step_s)

    def verdict(self, leniency: float = 1.0) -> str:
        """Why the engine counts as dead; empty when it does not. `leniency` multiplies the silence it may keep."""
        return self._beyond(self.patience.kill_s * leniency, 2 * self.patience.step_s)

    def _beyond(self, silence_s: float, step_s: float) -> str:
        if self.silence_s >= silence_s:
            return f"the engine has given no sign of life for {self.silence_s:.1f} s"
        if self.step_s >= step_s:
            return f"the engine has been stuck in a step for {self.step_s:.1f} s"
        return ""
