from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ConfigError
from infer_bench.sharegpt import read_conversations


def entry(*turns: tuple[str, Any]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": who, "value": text} for who, text in turns]}


def test_the_first_question_and_answer_of_each_conversation_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    data = [
        entry(("human", "hi"), ("gpt", "hello"), ("human", "more")),
        entry(("user", "why"), ("assistant", "because")),
        entry(("gpt", "welcome"), ("human", "hi")),
        entry(("human", "alone")),
        entry(("human", " "), ("gpt", "what?")),
        {"text": "of another form"},
    ]
    path.write_text(json.dumps(data))
    assert read_conversations(str(path)) == [("hi", "hello"), ("why", "because")]


@pytest.mark.parametrize("text", ["{}", "[]", "[[1]]", "no json"])
def test_a_file_without_conversations_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chats.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="--dataset-path"):
        read_conversations(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_conversations(str(tmp_path / "none.json"))
