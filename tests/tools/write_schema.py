"""Write the light schema of the options from the typed sections of the configuration.

    python tests/tools/write_schema.py            # write infer/config/schema.json
    python tests/tools/write_schema.py --check    # exit 1 when stale

Help, flags and environment names are read from that file, so that none of them needs pydantic.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infer.config.schema import FILE
from infer.config.sections import InferConfig

__all__ = ["main", "schema_text"]

EXTRAS = ("flags", "env", "common", "secret")
NOT_TYPE = {"default", "description", "title", *EXTRAS}


def schema_text() -> str:
    """What `schema.json` should hold."""
    full = InferConfig.model_json_schema()
    groups = []
    for name, place in full["properties"].items():
        if "$ref" not in place:
            continue  # plugin_options: no group of its own
        section = full["$defs"][place["$ref"].rpartition("/")[2]]
        options = [_entry(key, facts) for key, facts in section.get("properties", {}).items()]
        kind = {"kind": place["kind"]} if "kind" in place else {}
        groups.append({"name": name, **kind, "doc": section["description"], "options": options})
    return json.dumps({"groups": groups}, indent=1, ensure_ascii=False) + "\n"


def _entry(name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "doc": " ".join(facts.get("description", "").split()),
        "default": facts.get("default", {}),
        "type": {key: value for key, value in facts.items() if key not in NOT_TYPE},
        **{key: facts[key] for key in EXTRAS if facts.get(key)},
    }


def main(arguments: Sequence[str], path: Path = FILE) -> int:
    """Write `path`, or with `--check` only compare it; returns the exit status."""
    text = schema_text()
    fresh = path.is_file() and path.read_text(encoding="utf-8") == text
    if "--check" in arguments:
        if not fresh:
            print(f"{path.name}: stale; run make manifests", file=sys.stderr)
        return 0 if fresh else 1
    if not fresh:
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
