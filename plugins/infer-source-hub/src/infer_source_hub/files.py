"""Which files of a repository make the model."""

from __future__ import annotations

from collections.abc import Iterable

from infer_api.errors import ModelError
from infer_api.sources import ModelFormats

__all__ = ["choose_files"]

BESIDE_WEIGHTS = (".json", ".jinja", ".txt", ".model")
"""Suffixes of the small files that a model folder needs beside its weights."""
WEIGHTS = ".safetensors"


def choose_files(repo: str, file: str, names: Iterable[str], formats: ModelFormats) -> list[str]:
    """Of all `names` in `repo`: the `file` asked for, or the top folder's, or the only model file.

    Raises ModelError when nothing fits, or several do (listing them).
    """
    names = list(names)
    if file:
        if file not in names:
            raise ModelError(f"{repo} holds no file {file!r} (files: {_some(names)})")
        return [file]
    top = [name for name in names if "/" not in name]
    if formats.is_folder(top) and any(name.endswith(WEIGHTS) for name in top):
        return [name for name in top if name.endswith((*BESIDE_WEIGHTS, WEIGHTS)) and not _is_second_copy(name, top)]
    models = [name for name in names if formats.is_file(name)]
    if len(models) == 1:
        return models
    if models:
        raise ModelError(f"{repo} holds {len(models)} model files; choose one: {repo}/FILE ({_some(models)})")
    raise ModelError(f"{repo} holds no model that an installed loader opens (looked for {formats})")


def _is_second_copy(name: str, names: list[str]) -> bool:
    """Some repositories hold the same weights again in their maker's own layout."""
    return name.startswith("consolidated") and any(one.startswith("model") and one.endswith(WEIGHTS) for one in names)


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "")
