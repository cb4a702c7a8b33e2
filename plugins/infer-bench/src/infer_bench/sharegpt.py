"""Files of conversations in ShareGPT's form: [{"conversations": [{"from": …, "value": …}, …]}, …]."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infer_api.errors import ConfigError

__all__ = ["read_conversations"]

_ASKING = ("human", "user")
_ANSWERING = ("gpt", "assistant", "chatgpt", "bing", "bard")


def read_conversations(path: str) -> list[tuple[str, str]]:
    """First question and first answer of every conversation that begins with them; others are left out.

    Raises ConfigError when the file cannot be read, is of another form, or holds no such conversation.
    """
    try:
        data = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--dataset-path {path!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--dataset-path {path!r} is no JSON: {error}") from error
    if not isinstance(data, list):
        raise ConfigError(f"--dataset-path {path!r} must hold a list of conversations, found {type(data).__name__}")
    turns = [turn for entry in data if (turn := _first_turn(entry)) is not None]
    if not turns:
        raise ConfigError(
            f"--dataset-path {path!r}: none of its {len(data)} entries is "
            '{"conversations": [{"from": "human", "value": …}, {"from": "gpt", "value": …}]}'
        )
    return turns


def _first_turn(entry: Any) -> tuple[str, str] | None:
    said = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(said, list) or len(said) < 2 or not all(isinstance(each, dict) for each in said[:2]):
        return None
    question, answer = said[:2]
    if question.get("from") not in _ASKING or answer.get("from") not in _ANSWERING:
        return None
    texts = question.get("value"), answer.get("value")
    return (texts[0], texts[1]) if all(isinstance(text, str) and text.strip() for text in texts) else None
