from __future__ import annotations

from pathlib import Path

import pytest

from infer.model.json_files import find_json, read_json
from infer_api.errors import ModelError


def test_an_object_is_returned(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": [1, null]}')
    assert read_json(tmp_path / "a.json") == {"x": [1, None]}
    assert find_json(tmp_path / "a.json") == {"x": [1, None]}


@pytest.mark.parametrize(
    ("data", "words"),
    [(b'{"x": ', "not valid JSON"), (b"\xff\xfe", "not valid JSON"), (b"", "not valid JSON"), (b"[1]", "found list")],
)
def test_other_content_is_an_error_naming_the_file(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(ModelError, match=rf"a\.json: .*{words}"):
        read_json(tmp_path / "a.json")


def test_a_missing_file_is_an_error_unless_it_may_be_missing(tmp_path: Path) -> None:
    assert find_json(tmp_path / "a.json") == {}
    with pytest.raises(ModelError, match=r"a\.json: the file is missing"):
        read_json(tmp_path / "a.json")
    with pytest.raises(ModelError, match="the file cannot be read"):
        read_json(tmp_path)
