"""Write the catalog of first-party plugins from the members' manifests.

    python tests/tools/write_catalog.py            # write src/infer_catalog/catalog.json
    python tests/tools/write_catalog.py --check    # exit 1 when stale

The catalog is data that the distribution `infer` ships, so that an error about an unknown architecture
can name the plugin that would offer it although it is not installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from members import ROOT, Member, find_members

__all__ = ["CATALOG", "catalog_text", "main"]

CATALOG = Path("src/infer_catalog/catalog.json")
MANIFEST = "infer-plugin.json"
FORMAT = 1


def _entries(member: Member) -> list[dict[str, Any]]:
    manifest = member.source / MANIFEST
    if not manifest.is_file():
        return []
    plugins = json.loads(manifest.read_text(encoding="utf-8"))["plugins"]
    return [
        {
            "distribution": member.name,
            "kind": plugin["kind"],
            "name": plugin["name"],
            "summary": plugin["summary"],
            "architectures": plugin.get("supports", {}).get("architectures", {}),
        }
        for plugin in plugins
    ]


def catalog_text(members: Sequence[Member]) -> str:
    """Text of the catalog: one entry per plugin of those `members` that lie outside core, sorted by kind and name."""
    plugins = [entry for member in members if member.is_plugin for entry in _entries(member)]
    plugins.sort(key=lambda entry: (entry["kind"], entry["name"], entry["distribution"]))
    return json.dumps({"format": FORMAT, "plugins": plugins}, indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the catalog below `root`, or with `--check` only compare it; returns the exit status."""
    path, text = root / CATALOG, catalog_text(find_members(root))
    fresh = path.is_file() and path.read_text(encoding="utf-8") == text
    if "--check" in arguments:
        if not fresh:
            print(f"{CATALOG}: stale; run make manifests", file=sys.stderr)
        return 0 if fresh else 1
    if not fresh:
        path.write_text(text, encoding="utf-8")
        print(f"{CATALOG}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
