from __future__ import annotations

from typing import Any

import pytest

from infer_api.errors import ModelError
from infer_source_pypi.pins import Part, parse_pins

PART = {"requirement": "a==1", "wheel_sha256": "0" * 64, "wheel_bytes": 9, "member": "a/*"}


def test_an_alias_becomes_typed_pins() -> None:
    pins = parse_pins("m", {"num_bytes": 5, "parts": [PART]})
    assert (pins.num_bytes, pins.parts, pins.file) == (5, (Part(**PART),), "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spec",
    [{}, {"num_bytes": 5, "parts": []}, {"num_bytes": "5", "parts": [PART]}, {"num_bytes": 5, "parts": [{}]}],
)
def test_damaged_pins_are_refused_by_name(spec: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="the alias 'm' of a catalog is damaged"):
        parse_pins("m", spec)
