"""The distributions of this repository, found by glob: nobody lists them by hand."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["MEMBER_GLOBS", "ROOT", "Member", "find_members", "read_member"]

ROOT = Path(__file__).resolve().parents[2]
MEMBER_GLOBS = ("core/*", "plugins/*", "plugins-*/*", "csrc/*")
PLUGIN_GROUP_PREFIX = "infer."


@dataclass(frozen=True)
class Member:
    """One distribution: its folder and what its pyproject.toml says."""

    path: Path
    project: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the distribution, such as "infer-api"."""
        return str(self.project["name"])

    @property
    def source(self) -> Path:
        """Folder of the one package under src/."""
        packages = sorted(file.parent for file in self.path.glob("src/*/__init__.py"))
        assert len(packages) == 1, (
            f"{self.path}/src must hold one package, and holds {[path.name for path in packages]}"
        )
        return packages[0]

    @property
    def package(self) -> str:
        """Import name."""
        return self.source.name

    @property
    def is_plugin(self) -> bool:
        """Whether it lies under plugins/ or plugins-*/."""
        return self.path.parent.name.startswith("plugins")

    @property
    def entry_points(self) -> Mapping[str, Mapping[str, str]]:
        """Entry points by group, those of infer only."""
        groups: Mapping[str, Mapping[str, str]] = self.project.get("entry-points", {})
        return {group: names for group, names in groups.items() if group.startswith(PLUGIN_GROUP_PREFIX)}

    def files(self) -> list[Path]:
        """Python files of the package, sorted."""
        return sorted(self.source.rglob("*.py"))

    def modules(self) -> Iterator[str]:
        """Import names of all modules; `__main__` modules are left out, for they run when imported."""
        for path in self.files():
            parts = path.relative_to(self.source.parent).with_suffix("").parts
            if parts[-1] == "__main__":
                continue
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_member(path: Path) -> Member:
    """The distribution whose pyproject.toml lies in `path`."""
    return Member(path, tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def find_members(root: Path = ROOT) -> tuple[Member, ...]:
    """All distributions under `root`, sorted by folder; the meta-distribution at `root` is not among them."""
    folders = {file.parent for glob in MEMBER_GLOBS for file in root.glob(f"{glob}/pyproject.toml")}
    return tuple(read_member(folder) for folder in sorted(folders))
