from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer.model.tokenizer_files import read_tokenizer
from infer_api.errors import ModelError
from infer_api.tokenizers import TokenizerSource

TOKENS = {
    "added_tokens": [{"id": 1, "content": "<s>", "special": True}, {"id": 2, "content": "</s>", "special": True}],
    "model": {"type": "BPE", "vocab": {"a": 5, "<pad>": 6}, "merges": []},
}


def source(folder: Path, config: dict[str, Any] | None = None, **files: Any) -> TokenizerSource:
    for name, content in {"tokenizer": TOKENS, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    found = read_tokenizer(folder, config or {})
    assert found is not None
    return found


def test_a_folder_without_tokenizer_json_has_none(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path, {}) is None


def test_the_text_of_tokenizer_json_is_handed_on(tmp_path: Path) -> None:
    found = source(tmp_path)
    assert found.format == "tokenizer.json"
    assert json.loads(found.data) == TOKENS
    assert found.where == str(tmp_path / "tokenizer.json")
    assert (found.bos_id, found.eos_ids, found.pad_id, found.add_bos) == (None, (), None, None)


def test_special_tokens_become_ids_from_texts_and_objects(tmp_path: Path) -> None:
    found = source(
        tmp_path,
        special_tokens_map={"bos_token": {"content": "<s>"}, "eos_token": "old", "additional_special_tokens": ["x"]},
        tokenizer_config={"eos_token": "</s>", "pad_token": "<pad>", "add_bos_token": True},
    )
    assert found.special_tokens == {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    assert (found.bos_id, found.eos_ids, found.pad_id, found.add_bos) == (1, (2,), 6, True)


@pytest.mark.parametrize(
    ("config", "files", "eos_ids"),
    [
        ({"eos_token_id": 7}, {}, (7,)),
        ({"eos_token_id": [7, 8]}, {}, (7, 8)),
        ({"eos_token_id": 7}, {"generation_config": {"eos_token_id": [9, 2]}}, (9, 2)),
        ({"eos_token_id": 7}, {"generation_config": {"temperature": 0.5}}, (7,)),
        ({"eos_token_id": [9, 2]}, {"tokenizer_config": {"eos_token": "</s>"}}, (9, 2)),
        ({}, {"generation_config": {"eos_token_id": 9}, "tokenizer_config": {"eos_token": "</s>"}}, (9, 2)),
    ],
)
def test_end_ids_may_be_an_integer_or_a_list(
    tmp_path: Path, config: dict[str, Any], files: dict[str, Any], eos_ids: tuple[int, ...]
) -> None:
    assert source(tmp_path, config, **files).eos_ids == eos_ids


def test_an_id_that_is_no_integer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="token ids in the configuration must be integers, found 'x'"):
        source(tmp_path, {"eos_token_id": ["x"]})


def test_sampling_defaults_are_kept_apart_from_ids(tmp_path: Path) -> None:
    stated = {"temperature": 0.6, "top_k": 20, "do_sample": False, "eos_token_id": 2, "transformers_version": "5"}
    assert source(tmp_path, generation_config=stated).generation == {
        "temperature": 0.6,
        "top_k": 20,
        "do_sample": False,
    }


def test_a_chat_template_may_be_one_text(tmp_path: Path) -> None:
    assert source(tmp_path, tokenizer_config={"chat_template": "{{ x }}"}).chat_templates == {"default": "{{ x }}"}


def test_a_chat_template_may_be_named_variants(tmp_path: Path) -> None:
    variants = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    assert source(tmp_path, tokenizer_config={"chat_template": variants}).chat_templates == {
        "default": "a",
        "tool_use": "b",
    }


def test_templates_in_files_of_their_own_win(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("from file é", encoding="utf-8")
    for folder, name in (("chat_templates", "rag"), ("additional_chat_templates", "tool_use")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.jinja").write_text(f"{name} file")
    templates = source(tmp_path, tokenizer_config={"chat_template": "stated"}).chat_templates
    assert templates == {"default": "from file é", "rag": "rag file", "tool_use": "tool_use file"}


def test_a_variant_without_a_template_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer_config\.json: a named chat_template needs 'name' and 'template'"):
        source(tmp_path, tokenizer_config={"chat_template": [{"name": "default"}]})


@pytest.mark.parametrize("name", ["tokenizer", "tokenizer_config", "special_tokens_map", "generation_config"])
def test_broken_json_is_an_error_naming_the_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENS))
    (tmp_path / f"{name}.json").write_text('{"a": ')
    with pytest.raises(ModelError, match=rf"{name}\.json: this is not (a )?valid"):
        read_tokenizer(tmp_path, {})


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja", "chat_templates/x.jinja"])
def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENS))
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(ModelError, match=f"{name}: the file cannot be read"):
        read_tokenizer(tmp_path, {})


def test_a_chat_template_that_is_no_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ModelError, match=r"chat_template\.jinja: the file cannot be read"):
        source(tmp_path)
