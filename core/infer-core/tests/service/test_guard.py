from __future__ import annotations

import pytest

from infer.service.guard import KeyGuard, read_keys
from infer_api.errors import ConfigError


def test_without_keys_everything_passes() -> None:
    assert KeyGuard(()).allows(None)


@pytest.mark.parametrize("header", ["Bearer one", "bearer two", "Bearer  one "])
def test_any_of_the_keys_passes(header) -> None:
    assert KeyGuard(("one", "two")).allows(header)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "one", "Basic one", "Bearer onetwo", "Bearer \udcff"]
)
def test_anything_else_does_not(header) -> None:
    assert not KeyGuard(("one", "two")).allows(header)


def test_keys_of_the_file_join_those_of_the_options(tmp_path) -> None:
    file = tmp_path / "keys"
    file.write_text("# team a\nalpha\n\n  beta \n")
    assert read_keys(("one",), str(file)) == ("one", "alpha", "beta")
    assert read_keys(("one",), None) == ("one",)


def test_a_key_file_that_is_missing_or_empty_is_an_error_and_not_an_open_server(tmp_path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    for name in ("gone", "empty"):
        with pytest.raises(ConfigError, match=name):
            read_keys((), str(tmp_path / name))
    with pytest.raises(ConfigError, match="empty"):
        read_keys((" ",), None)
