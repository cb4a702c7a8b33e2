from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from infer_testkit.tiny_checkpoints import ROPES, make_gemma3, make_llama, make_mistral, make_tokenizer


def config(path: Path) -> dict:
    return json.loads((path / "config.json").read_text())


@pytest.mark.parametrize("rope", ROPES)
def test_a_llama_has_the_rope_that_was_asked_for(tmp_path: Path, rope: str) -> None:
    assert config(make_llama(tmp_path, rope=rope, tokenizer=False))["rope_parameters"]["rope_type"] == rope


def test_a_tied_llama_stores_no_head(tmp_path: Path) -> None:
    path = make_llama(tmp_path, tied=True, tokenizer=False)
    assert config(path)["tie_word_embeddings"] is True
    assert "lm_head.weight" not in load_file(path / "model.safetensors")


def test_shards_come_with_an_index(tmp_path: Path) -> None:
    path = make_llama(tmp_path, shards=3, tokenizer=False)
    files = set(json.loads((path / "model.safetensors.index.json").read_text())["weight_map"].values())
    assert len(files) > 1
    assert all((path / file).is_file() for file in files)


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    first, second, other = (
        load_file(make_llama(tmp_path / str(i), seed=seed, tokenizer=False) / "model.safetensors")
        for i, seed in enumerate((3, 3, 4))
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_weights_can_be_bfloat16(tmp_path: Path) -> None:
    path = make_gemma3(tmp_path, dtype=torch.bfloat16, tokenizer=False)
    assert {value.dtype for value in load_file(path / "model.safetensors").values()} == {torch.bfloat16}


def test_a_mistral_states_its_window(tmp_path: Path) -> None:
    assert config(make_mistral(tmp_path, window=7, tokenizer=False))["sliding_window"] == 7


def test_the_tokenizer_renders_a_chat_and_gives_text_back(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(make_tokenizer(tmp_path))
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hé 東京"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<|im_start|>user\nHé 東京<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert max(ids) < 320
    assert tokenizer.decode(ids) == text
