"""The worker: step state on the device, forward pass, sampling. Needs neither zmq, fastapi nor pydantic."""

from __future__ import annotations

__all__: list[str] = []
