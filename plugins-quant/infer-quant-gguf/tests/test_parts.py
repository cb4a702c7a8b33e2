from __future__ import annotations

from pathlib import Path

import pytest

from infer_quant_gguf.errors import GgufMalformed, GgufPartMissing
from infer_quant_gguf.parts import open_parts


@pytest.fixture
def split(write_gguf, matrix) -> list[Path]:
    def part(index: int, **changes: int) -> Path:
        keys = {
            "split.no": ("uint16", changes.get("no", index)),
            "split.count": ("uint16", 3),
            "split.tensors.count": ("int32", 3),
        }
        name = f"model-{index + 1:05d}-of-00003.gguf"
        return write_gguf(name, keys=keys, tensors={f"t{index}": (matrix(2, 32), "Q8_0")})

    return [part(index) for index in range(3)]


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_any_part_opens_all_of_them_in_order(split: list[Path], opened: int) -> None:
    parts = open_parts(split[opened])
    assert [list(part.tensors) for part in parts] == [["t0"], ["t1"], ["t2"]]


def test_missing_parts_are_named(split: list[Path]) -> None:
    split[0].unlink()
    split[2].unlink()
    with pytest.raises(GgufPartMissing, match=r"part 1 of 3 \(model-00001-of-00003\.gguf\), part 3 of 3"):
        open_parts(split[1])


def test_a_renamed_part_says_how_parts_must_be_named(split: list[Path]) -> None:
    renamed = split[1].rename(split[1].with_name("model.gguf"))
    with pytest.raises(GgufPartMissing, match="one part of a checkpoint split into 3.*NAME-00001-of-00003"):
        open_parts(renamed)


def test_a_part_in_the_place_of_another_is_refused(split: list[Path]) -> None:
    split[2].write_bytes(split[1].read_bytes())
    with pytest.raises(GgufMalformed, match="expected part 3 of 3"):
        open_parts(split[0])


def test_a_whole_file_is_one_part(write_gguf) -> None:
    path = write_gguf()
    assert [part.path for part in open_parts(path)] == [path]
