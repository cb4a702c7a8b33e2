from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from infer_api.errors import ModelError, PluginError
from infer_api.manifest import SourceSupport
from infer_api.sources import ModelFormats, check_sha256

FORMATS = ModelFormats((".tiny",), ("config.json", "*.index"))


def test_a_model_file_is_known_by_its_ending_in_any_case() -> None:
    assert FORMATS.is_file("a/B.TINY")
    assert not FORMATS.is_file("tiny")
    assert not ModelFormats((), ()).is_file("anything")


def test_a_model_folder_is_known_by_what_it_holds() -> None:
    assert FORMATS.is_folder(["x", "config.json"])
    assert FORMATS.is_folder(["a.index"])
    assert not FORMATS.is_folder(["x.tiny"])


def test_formats_are_said_in_words() -> None:
    assert str(FORMATS) == "config.json, *.index, *.tiny"
    assert str(ModelFormats((), ())) == "nothing: no loader is installed"


def test_a_wrong_digest_names_the_file_or_what_it_stands_for(tmp_path: Path) -> None:
    path = tmp_path / "x.tiny"
    path.write_bytes(b"weights")
    check_sha256(path, hashlib.sha256(b"weights").hexdigest())
    with pytest.raises(
        ModelError, match="x.tiny is not what was expected: its SHA-256 is .*, not 00; nothing was kept"
    ):
        check_sha256(path, "00")
    with pytest.raises(ModelError, match="the package is not what"):
        check_sha256(path, "00", "the package")


@pytest.mark.parametrize("field", ["pattern", "bare"])
def test_a_pattern_that_is_none_is_found_when_the_manifest_is_made(field: str) -> None:
    with pytest.raises(PluginError, match=r"source 'x:': '\(' is no pattern"):
        SourceSupport(**{"prefix": "x:", "pattern": "a", "usage": "x:a", field: "("})  # type: ignore[arg-type]
