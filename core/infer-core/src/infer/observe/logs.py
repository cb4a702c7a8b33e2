"""Logging set-up of the command line and of engine processes. A library user's own set-up is left alone."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from typing import TextIO

__all__ = ["log_line", "set_up_logging"]

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _Handler(logging.StreamHandler[TextIO]):
    """Our own class, so that a second set-up finds the first one's handler and replaces it."""

    is_json = False


def set_up_logging(
    level: str, packages: Iterable[str] = (), format: str = "text", *, stream: TextIO | None = None
) -> None:
    """Log messages of infer, and of plugin `packages`, from `level` ("debug" … "error") on to `stream`.

    `format` "json" writes one object a line: time (RFC 3339, UTC), level, logger, message, exception, and what a
    message has in `extra`, such as request_id. Other libraries are heard from warnings on. Called once per process, by
    the command line or an engine process.
    """
    handler = _Handler(stream or sys.stderr)
    handler.is_json = format == "json"
    handler.setFormatter(_json_formatter() if handler.is_json else logging.Formatter(FORMAT, datefmt="%H:%M:%S"))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    for name in {"infer", "infer_api", *packages}:
        logging.getLogger(name).setLevel(level.upper())


def log_line(level: int, text: str) -> bool:
    """Write what the user is told in any case, whatever the level, as a message. False, and nothing, in "text"."""
    handler = next((one for one in logging.getLogger().handlers if isinstance(one, _Handler)), None)
    if handler is None or not handler.is_json:
        return False
    handler.handle(logging.LogRecord("infer", level, "", 0, text, (), None))
    return True


def _json_formatter() -> logging.Formatter:
    from pythonjsonlogger.json import JsonFormatter

    named = {"levelname": "level", "name": "logger", "exc_info": "exception", "stack_info": "stack"}
    return JsonFormatter("{levelname}{name}{message}", style="{", rename_fields=named, timestamp="time")
