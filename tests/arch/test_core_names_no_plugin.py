"""Core names no plugin: what a plugin is called is no word of infer-api or infer-core, not even in a comment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from members import ROOT, Member, find_members
from sample_tree import write_member

CORE = ("infer-api", "infer-core")
SUFFIXES = (".py", ".json", ".yaml", ".toml")

EXCUSED: dict[str, str] = {
    "torch": "the library that core itself computes with; the reference attention plugin is named after it",
    "cpu": "torch's name of a device, which value types and messages have to spell",
    "chat": "what templates, messages and requests are about, in every layer",
    "complete": "an ordinary verb and adjective",
    "json": "a format, and the module of the standard library that reads it",
    "priority": "what plugins and requests carry to be ordered by",
    "metrics": "an ordinary word, and a group of hooks",
    "tracing": "an ordinary word",
    "serve": "an ordinary verb, and the command that messages tell a reader to type",
}
"""Names of plugins that core may say, and why: they are words of their own."""

TERMS: dict[str, str] = {
    "llama3": "a published type of rope scaling, spelt so in the configuration of models of many families",
}
"""Whole tokens that are terms of the field although a plugin's name is part of them, and why core needs them."""

TOKEN = re.compile(r"[A-Za-z0-9_-]+")
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
"""Splits snake_case, kebab-case and CamelCase, so that `LlamaForCausalLM` has the word `llama`."""


def words(token: str) -> list[str]:
    return [word.lower() for word in WORD.findall(token)]


def spellings(text: str) -> set[str]:
    """Every run of neighbouring words inside one token, joined: "OpenAIRoutes" says "openai" and "routes"."""
    said = set()
    for token in TOKEN.findall(text):
        if token in TERMS:
            continue
        parts = words(token)
        said |= {"".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}
    return said


def plugin_names(members: Iterable[Member]) -> set[str]:
    """What a plugin is known by: its entry-point names, its distribution and its package."""
    names: set[str] = set()
    for member in members:
        if member.is_plugin:
            names |= {member.name, member.package}
            names |= {name for group in member.entry_points.values() for name in group}
    return names


def core_files(members: Iterable[Member]) -> Iterator[Path]:
    for member in members:
        if member.name in CORE:
            yield from sorted(path for path in member.source.rglob("*") if path.suffix in SUFFIXES)


def named_plugins(root: Path, excused: Iterable[str] = ()) -> list[str]:
    """Lines of core that say a plugin's name, as "path:line: name"."""
    members = find_members(root)
    names = {"".join(words(name)): name for name in sorted(plugin_names(members)) if name not in excused}
    found = []
    for path in core_files(members):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            hits = sorted(names[said] for said in spellings(text) & names.keys())
            found += [f"{path.relative_to(root).as_posix()}:{number}: {name}" for name in hits]
    return found


def test_core_names_no_plugin() -> None:
    assert named_plugins(ROOT, EXCUSED) == []


def test_every_excuse_is_the_name_of_a_plugin() -> None:
    assert set(EXCUSED) <= plugin_names(find_members(ROOT))


def tree_with(root: Path, text: str, core: str = "infer-core", package: str = "infer") -> list[str]:
    write_member(root, "plugins-x/infer-model-llama", "infer_model_llama", entry_point=("models", "llama"))
    write_member(root, "plugins/infer-openai", "infer_openai", entry_point=("routes", "openai"))
    write_member(root, "plugins/infer-model-gpt-oss", "infer_model_gpt_oss", entry_point=("models", "gpt-oss"))
    write_member(root, "plugins/infer-cpu", "infer_cpu", entry_point=("platforms", "cpu"))
    write_member(root, f"core/{core}", package, {"a/b.py": f"x = 1\n{text}\n"})
    return named_plugins(root, {"cpu"})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('if family == "llama":', "llama"),
        ('ARCHITECTURES = {"LlamaForCausalLM"}', "llama"),
        ("# as llama.cpp does", "llama"),
        ("def load_llama_weights(): ...", "llama"),
        ('"""Routes in the OpenAI shape."""', "openai"),
        ("import infer_openai.routes", "openai"),
        ("class OpenAIRoutes: ...", "openai"),
        ("gpt_oss = 1", "gpt-oss"),
        ("class GptOss: ...", "gpt-oss"),
    ],
)
def test_a_plugin_that_core_names_is_found(tmp_path: Path, text: str, name: str) -> None:
    assert f"core/infer-core/src/infer/a/b.py:2: {name}" in tree_with(tmp_path, text)


def test_the_contracts_are_searched_too(tmp_path: Path) -> None:
    found = tree_with(tmp_path, "llama = 1", "infer-api", "infer_api")
    assert found == ["core/infer-api/src/infer_api/a/b.py:2: llama"]


@pytest.mark.parametrize("text", ["# a llamas herd", 'device = "cpu"', "gpt = oss = 1", "openness", "#"])
def test_other_words_and_excused_names_pass(tmp_path: Path, text: str) -> None:
    assert tree_with(tmp_path, text) == []
