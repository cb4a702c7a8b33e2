"""Sizes in bytes as people write them: 1048576, "512MiB", "1.5 GiB", "2G"."""

from __future__ import annotations

import re
import reprlib

__all__ = ["format_size", "parse_size"]

UNITS = {"": 0, "B": 0, "K": 10, "KIB": 10, "M": 20, "MIB": 20, "G": 30, "GIB": 30, "T": 40, "TIB": 40}
DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
MAX_BYTES = 1 << 63
SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_size(value: object) -> object:
    """Bytes of a text such as "512MiB" (powers of 1024; KB, MB, GB, TB are powers of 1000).

    Anything that is no text is returned as it is, for the caller's own type check. Raises ValueError for text that is
    no size, or no whole number of bytes, and for more than a machine can address.
    """
    if not isinstance(value, str):
        if isinstance(value, int) and value >= MAX_BYTES:
            raise ValueError(f"must be less than 2**63 bytes, found {reprlib.repr(value)}")
        return value
    match = SIZE.fullmatch(value)
    unit = match[2].upper() if match else ""
    if match is None or unit not in UNITS and unit not in DECIMAL:
        raise ValueError(f"{value!r} is no size; write a number of bytes, or one with a unit such as 512MiB or 2GiB")
    size = float(match[1]) * (DECIMAL[unit] if unit in DECIMAL else 1 << UNITS[unit])
    if size >= MAX_BYTES or size != int(size):
        raise ValueError(f"{reprlib.repr(value)} is no whole number of bytes less than 2**63")
    return int(size)


def format_size(num_bytes: int) -> str:
    """Short text such as "93.8 MiB" for people; not for parsing back."""
    size = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
