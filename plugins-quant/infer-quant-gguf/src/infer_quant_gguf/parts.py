"""Checkpoints that are split into several files: NAME-00001-of-00003.gguf and so on, all in one folder."""

from __future__ import annotations

import re
from pathlib import Path

from infer_quant_gguf.errors import GgufMalformed, GgufPartMissing
from infer_quant_gguf.format import GgufFile

__all__ = ["open_parts"]

_PART_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def open_parts(path: Path) -> list[GgufFile]:
    """Open the file and, if it is one part of a split checkpoint, all other parts. The first one has the metadata.

    Raises GgufPartMissing naming the parts that are not there, and GgufError for anything wrong with one of them.
    """
    opened = GgufFile.open(path)
    count = opened.metadata.get("split.count", 0)
    if not isinstance(count, int) or count <= 1:
        return [opened]
    paths = _part_paths(path, count)
    missing = [(number, part.name) for number, part in enumerate(paths, start=1) if not part.is_file()]
    if missing:
        listed = ", ".join(f"part {number} of {count} ({name})" for number, name in missing[:8])
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise GgufPartMissing(path, f"the checkpoint is split and parts are missing from its folder: {listed}{more}")
    parts = [opened if part == path else GgufFile.open(part) for part in paths]
    _check(parts, count)
    return parts


def _part_paths(path: Path, count: int) -> list[Path]:
    named = _PART_NAME.fullmatch(path.name)
    if named is None or int(named["count"]) != count:
        raise GgufPartMissing(
            path,
            f"this is one part of a checkpoint split into {count}; to find the others, keep the names "
            f"NAME-00001-of-{count:05d}.gguf .. NAME-{count:05d}-of-{count:05d}.gguf",
        )
    return [path.with_name(f"{named['stem']}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]


def _check(parts: list[GgufFile], count: int) -> None:
    owner: dict[str, Path] = {}
    for index, part in enumerate(parts):
        found = (part.metadata.get("split.no"), part.metadata.get("split.count"))
        if found != (index, count):
            raise GgufMalformed(part.path, f"expected part {index + 1} of {count}, found split.no, split.count {found}")
        for name in part.tensors:
            if name in owner:
                raise GgufMalformed(part.path, f"tensor {name!r} is also in {owner[name].name}")
            owner[name] = part.path
    expected = parts[0].metadata.get("split.tensors.count", len(owner))
    if expected != len(owner):
        raise GgufMalformed(parts[0].path, f"{expected} tensors are announced, the parts hold {len(owner)}")
