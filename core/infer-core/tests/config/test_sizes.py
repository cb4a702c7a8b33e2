from __future__ import annotations

import pytest

from infer.config.sizes import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("1048576", 2**20),
        ("512MiB", 512 * 2**20),
        ("2GiB", 2**31),
        (" 1.5 gib ", 3 * 2**29),
        ("4G", 2**32),
        ("1kb", 1000),
        ("2GB", 2 * 10**9),
        ("7B", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, num_bytes: int) -> None:
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize("text", ["", "GiB", "2 gallons", "-1", "0.3B", "1e9"])
def test_other_text_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="size|whole number"):
        parse_size(text)


def test_numbers_pass_unchanged_for_the_type_check_of_the_caller() -> None:
    assert parse_size(5) == 5
    assert parse_size(None) is None


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (98362432, "93.8 MiB"), (3 * 2**40, "3.0 TiB")]
)
def test_sizes_are_shown_in_binary_units(num_bytes: int, text: str) -> None:
    assert format_size(num_bytes) == text


@pytest.mark.parametrize("value", ["9" * 400, "9" * 5000, 10**400, "8388608TiB"])
def test_more_than_a_machine_can_address_is_no_size(value: object) -> None:
    with pytest.raises(ValueError, match=r"less than 2\*\*63") as caught:
        parse_size(value)
    assert len(str(caught.value)) < 120
