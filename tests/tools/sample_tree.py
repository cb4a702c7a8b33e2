"""Made-up repositories, in which a check must find what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_member"]


def write_member(
    root: Path,
    folder: str,
    package: str,
    files: Mapping[str, str] | None = None,
    *,
    entry_point: tuple[str, str] | None = None,
) -> Path:
    """Write a distribution, named like its folder, with one package of `files` (path in the package -> text).

    Every folder gets an `__init__.py`; `entry_point` is (kind, name). Returns the package's folder.
    """
    source = root / folder / "src" / package
    source.mkdir(parents=True)
    for path, text in {"__init__.py": "", **(files or {})}.items():
        file = source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        for parent in file.parents:
            if parent == source.parent:
                break
            (parent / "__init__.py").touch()
    name = Path(folder).name
    text = f'[project]\nname = "{name}"\nversion = "0.1.0"\n'
    if entry_point is not None:
        kind, plugin = entry_point
        text += f'[project.entry-points."infer.{kind}"]\n{plugin} = "{package}.manifest:PLUGIN"\n'
    (root / folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return source
