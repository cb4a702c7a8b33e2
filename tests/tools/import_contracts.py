"""Who may import whom: builds the import-linter contracts of all members, found by glob, and checks them.

    python tests/tools/import_contracts.py [ROOT]

Two configurations are needed, because import-linter decides once per run whether imports under
TYPE_CHECKING count: for the direction between parts they do, for what must not be loaded they do not.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from importlinter.cli import lint_imports

from members import ROOT, Member, find_members

__all__ = ["LAYERS", "config_text", "direction_contracts", "light_contracts", "main"]

Contract = Mapping[str, str | Iterable[str]]

LAYERS = (
    "(cli)",
    "(service)",
    "(engine)",
    "(scheduler) | (runner)",
    "(kv) | (model) | (text)",
    "(ops) | (parallel)",
    "(plugins)",
    "(config)",
    "(observe) | (manifest)",
)
"""Packages inside `infer`, from high to low: a higher one may import a lower one, `|` separates siblings that
do not import each other, and parentheses let a tree without that package pass."""

HEAVY = ("torch", "numpy", "transformers", "fastapi", "starlette", "zmq", "safetensors", "tokenizers")
NOT_IN_WORKERS = ("fastapi", "starlette", "uvicorn", "zmq", "pydantic")


def _packages(members: Iterable[Member], *, plugins: bool) -> list[str]:
    return [member.package for member in members if member.is_plugin is plugins]


def _forbidden(name: str, source: Iterable[str], forbidden: Iterable[str], **more: str | Iterable[str]) -> Contract:
    return {"name": name, "type": "forbidden", "source_modules": source, "forbidden_modules": forbidden, **more}


def direction_contracts(members: Sequence[Member]) -> list[Contract]:
    """Contracts that hold for every import, also one under TYPE_CHECKING."""
    plugins, core = _packages(members, plugins=True), _packages(members, plugins=False)
    outside = [package for package in core if package != "infer_api"]
    contracts: list[Contract] = [
        {
            "name": "inside infer, higher imports lower",
            "type": "layers",
            "containers": ["infer"],
            "layers": LAYERS,
            "exhaustive": "True",
        },
        _forbidden("infer_api imports no other part", ["infer_api"], [*outside, *plugins]),
        _forbidden("infer imports no plugin and no test kit", ["infer"], ["infer_testkit", *plugins]),
        _forbidden("the test kit imports no plugin", ["infer_testkit"], plugins),
        _forbidden("plugins import infer_api only", plugins, outside),
        {"name": "plugins do not import each other", "type": "independence", "modules": plugins},
    ]
    return contracts


def light_contracts(members: Sequence[Member]) -> list[Contract]:
    """Contracts about what gets loaded at run time: imports under TYPE_CHECKING do not count."""
    return [
        _forbidden("infer_api loads nothing heavy", ["infer_api"], HEAVY),
        _forbidden(
            "only infer_api.options loads pydantic",
            ["infer_api"],
            ["pydantic"],
            ignore_imports=["infer_api.options -> pydantic"],
            unmatched_ignore_imports_alerting="none",
        ),
        _forbidden("the runner needs neither server nor pydantic", ["infer.runner"], NOT_IN_WORKERS),
    ]


def config_text(members: Sequence[Member], contracts: Sequence[Contract], *, type_checking: bool) -> str:
    """An import-linter configuration (INI) of `contracts` over all `members`."""
    lines = ["[importlinter]", "root_packages =", *(f"    {member.package}" for member in members)]
    lines += ["include_external_packages = True", f"exclude_type_checking_imports = {not type_checking}"]
    for number, contract in enumerate(contracts):
        lines += ["", f"[importlinter:contract:{number}]"]
        for key, value in contract.items():
            lines += (
                [f"{key} = {value}"] if isinstance(value, str) else [f"{key} =", *(f"    {item}" for item in value)]
            )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Check the tree at ROOT (this repository unless given); returns import-linter's exit status."""
    members = find_members(Path(arguments[0]).resolve() if arguments else ROOT)
    sys.path[:0] = [str(member.path / "src") for member in members]
    with tempfile.TemporaryDirectory() as folder:
        direction, light = Path(folder, "direction.ini"), Path(folder, "light.ini")
        direction.write_text(config_text(members, direction_contracts(members), type_checking=True), encoding="utf-8")
        light.write_text(config_text(members, light_contracts(members), type_checking=False), encoding="utf-8")
        return lint_imports(config_filenames=(str(direction), str(light)), no_cache=True, no_logo=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
