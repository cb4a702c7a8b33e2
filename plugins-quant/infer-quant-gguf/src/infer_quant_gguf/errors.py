"""One error for each way a GGUF file can be unusable.

    ModelError
    `- GgufError
       |- NotGguf                   no GGUF file at all
       |- UnsupportedGgufVersion    version or byte order that is not read
       |- GgufTruncated             the file ends too early
       |- GgufMalformed             contents that contradict the format
       |- UnsupportedTensorType     a tensor type that cannot be decoded
       |- TensorOutOfBounds         a tensor that lies outside of the file
       |- GgufPartMissing           some parts of a split checkpoint are not there
       |- UnsupportedTokenizer      a tokenizer model or pre-tokenizer that is not known

The message begins with the file.
"""

from __future__ import annotations

from pathlib import Path

from infer_api.errors import ModelError

__all__ = [
    "GgufError",
    "GgufMalformed",
    "GgufPartMissing",
    "GgufTruncated",
    "NotGguf",
    "TensorOutOfBounds",
    "UnsupportedGgufVersion",
    "UnsupportedTensorType",
    "UnsupportedTokenizer",
]


class GgufError(ModelError):
    """Base of all errors about the contents of a GGUF file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class NotGguf(GgufError):
    """The file does not begin with the four bytes of GGUF."""


class UnsupportedGgufVersion(GgufError):
    """A GGUF file of a version or byte order that is not read."""


class GgufTruncated(GgufError):
    """The file ends before everything that its header announces."""

    def __init__(self, path: Path, needed_bytes: int, found_bytes: int, what: str) -> None:
        super().__init__(
            path,
            f"the file is truncated: {what} needs byte {needed_bytes}, but the file ends at byte {found_bytes}; "
            f"fetch it again",
        )
        self.needed_bytes, self.found_bytes = needed_bytes, found_bytes


class GgufMalformed(GgufError):
    """The contents contradict the format."""


class UnsupportedTensorType(GgufError):
    """A tensor is stored in a type that cannot be decoded."""


class TensorOutOfBounds(GgufError):
    """A tensor's data would lie outside of the file."""


class GgufPartMissing(GgufError):
    """A checkpoint is split into several files and not all of them are there."""


class UnsupportedTokenizer(GgufError):
    """The file's tokenizer is of a kind that cannot be rebuilt."""
