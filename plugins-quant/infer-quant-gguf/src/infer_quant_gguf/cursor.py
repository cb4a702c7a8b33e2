"""Reading of numbers, strings and arrays from a GGUF header, with every length checked before it is used."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from infer_quant_gguf.errors import GgufMalformed, GgufTruncated

__all__ = ["Cursor", "Value"]

Value = bool | int | float | str | list["Value"]

_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_MAX_ARRAY_DEPTH = 4
_ARRAY_HEADER_BYTES = 12


class Cursor:
    """A position in a file of `size` bytes. Every `read` raises GgufTruncated instead of running past the end."""

    def __init__(self, path: Path, data: mmap.mmap, offset: int = 0) -> None:
        self.path, self.data, self.offset, self.size = path, data, offset, len(data)

    def require(self, num_bytes: int, what: str) -> None:
        """Check that `num_bytes` more bytes exist.

        Raises GgufTruncated.
        """
        if num_bytes > self.size - self.offset:
            raise GgufTruncated(self.path, self.offset + num_bytes, self.size, what)

    def read_u32(self, what: str) -> int:
        """One uint32."""
        return int(self._unpack("I", 1, what)[0])

    def read_u64(self, what: str) -> int:
        """One uint64."""
        return int(self._unpack("Q", 1, what)[0])

    def read_u64s(self, count: int, what: str) -> tuple[int, ...]:
        """`count` uint64."""
        return self._unpack("Q", count, what)

    def read_string(self, what: str) -> str:
        """One string.

        Raises GgufTruncated, and GgufMalformed when it is not UTF-8.
        """
        length = self.read_u64(what)
        self.require(length, what)
        raw = self.data[self.offset : self.offset + length]
        self.offset += length
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise GgufMalformed(self.path, f"{what} is not UTF-8: {error}") from error

    def read_value(self, kind: int, what: str, depth: int = 0) -> Value:
        """One value of the metadata type `kind`."""
        if kind in _NUMBERS:
            number: int | float = self._unpack(_NUMBERS[kind], 1, what)[0]
            return number
        if kind == _BOOL:
            return bool(self._unpack("B", 1, what)[0])
        if kind == _STRING:
            return self.read_string(what)
        if kind == _ARRAY:
            return self._read_array(what, depth)
        raise GgufMalformed(self.path, f"{what} has the unknown value type {kind}")

    def _read_array(self, what: str, depth: int) -> list[Value]:
        kind, count = self.read_u32(what), self.read_u64(what)
        if kind in _NUMBERS:
            return list(self._unpack(_NUMBERS[kind], count, what))
        if kind == _BOOL:
            return [bool(byte) for byte in self._unpack("B", count, what)]
        if kind == _STRING:
            return list(self._read_strings(count, what))
        if kind != _ARRAY:
            raise GgufMalformed(self.path, f"{what} is an array of the unknown value type {kind}")
        if depth >= _MAX_ARRAY_DEPTH:
            raise GgufMalformed(self.path, f"{what} nests arrays deeper than {_MAX_ARRAY_DEPTH}")
        self.require(count * _ARRAY_HEADER_BYTES, what)
        return [self._read_array(what, depth + 1) for _ in range(count)]

    def _read_strings(self, count: int, what: str) -> list[str]:
        # A vocabulary has a quarter of a million of these: one loop without calls to own functions.
        self.require(count * 8, what)
        data, at, size = self.data, self.offset, self.size
        unpack, found = struct.Struct("<Q").unpack_from, []
        try:
            for _ in range(count):
                start = at + 8
                at = start + unpack(data, at)[0]
                if at > size:
                    raise GgufTruncated(self.path, at, size, what)
                found.append(data[start:at].decode())
        except struct.error:
            raise GgufTruncated(self.path, at + 8, size, what) from None
        except UnicodeDecodeError as error:
            raise GgufMalformed(self.path, f"{what}, item {len(found)}, is not UTF-8: {error}") from error
        self.offset = at
        return found

    def _unpack(self, code: str, count: int, what: str) -> tuple:
        num_bytes = count * struct.calcsize(f"<{code}")
        self.require(num_bytes, what)
        found = struct.unpack_from(f"<{count}{code}", self.data, self.offset)
        self.offset += num_bytes
        return found
