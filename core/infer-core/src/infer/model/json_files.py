"""JSON files of a checkpoint folder, with errors that name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from infer_api.errors import ModelError

__all__ = ["find_json", "read_json"]


def read_json(path: Path) -> dict[str, Any]:
    """The object that `path` holds. Raises ModelError when it is missing, no JSON, or no object."""
    try:
        value = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{path}: the file is missing") from error
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: this is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def find_json(path: Path) -> dict[str, Any]:
    """Like `read_json`, but {} when the file is not there."""
    return read_json(path) if path.exists() else {}
