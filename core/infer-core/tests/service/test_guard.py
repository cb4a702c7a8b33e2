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


@pytest.mark.parametrize("key", ["schl\u00fcssel", "voil\u00e0", "\u043a\u043b\u044e\u0447"])
def test_a_key_beyond_ascii_passes_as_the_bytes_that_a_client_sends(key) -> None:
    # Servers decode the bytes of a header as Latin-1.
    assert KeyGuard((key,)).allows("Bearer " + key.encode().decode("latin-1"))
    assert KeyGuard((key,)).allows(f"Bearer {key}")
    assert not KeyGuard((key,)).allows("Bearer " + key[:-1].encode().decode("latin-1"))


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path) -> None:
    (tmp_path / "keys").write_text("alpha\n", encoding="utf-8-sig")
    assert read_keys((), str(tmp_path / "keys")) == ("alpha",)


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
