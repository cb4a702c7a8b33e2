"""The tokenizer of a checkpoint folder, from the files that Hugging Face tools write beside the weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from infer.model.json_files import find_json
from infer_api.errors import ModelError
from infer_api.tokenizers import TokenizerSource

__all__ = ["TOKENIZER", "read_tokenizer"]

TOKENIZER = "tokenizer.json"
NOT_SAMPLING = ("bos_token_id", "eos_token_id", "pad_token_id", "transformers_version", "_from_model_config")


class _Added(msgspec.Struct):
    id: int
    content: str


class _Vocabulary(msgspec.Struct):
    vocab: Any = None


class _Tokens(msgspec.Struct):
    """The part of a tokenizer.json that says which text is which id."""

    added_tokens: list[_Added] = []
    model: _Vocabulary = msgspec.field(default_factory=_Vocabulary)

    def find(self, text: str | None) -> int | None:
        if text is None:
            return None
        for token in self.added_tokens:
            if token.content == text:
                return token.id
        found = self.model.vocab.get(text) if isinstance(self.model.vocab, dict) else None
        return found if isinstance(found, int) else None


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> TokenizerSource | None:
    """What `folder` says of its tokenizer; None when it has no tokenizer.json. `config` is that of the model.

    End-of-text ids are those of generation_config.json (else config.json) and of the tokenizer's eos_token.
    Raises ModelError naming the file that is not what it should be.
    """
    path = folder / TOKENIZER
    if not path.exists():
        return None
    text, tokens = _read_tokens(path)
    options, generation = find_json(folder / "tokenizer_config.json"), find_json(folder / "generation_config.json")
    special = _special_tokens(find_json(folder / "special_tokens_map.json"), options)
    stated = generation.get("eos_token_id", config.get("eos_token_id"))
    eos_ids = (*_ids(stated, folder), tokens.find(special.get("eos_token")))
    add_bos = options.get("add_bos_token")
    return TokenizerSource(
        format=TOKENIZER,
        data=text,
        where=str(path),
        chat_templates=_chat_templates(folder, options),
        bos_id=_first(tokens.find(special.get("bos_token")), *_ids(config.get("bos_token_id"), folder)),
        eos_ids=tuple(dict.fromkeys(each for each in eos_ids if each is not None)),
        pad_id=_first(tokens.find(special.get("pad_token")), *_ids(config.get("pad_token_id"), folder)),
        add_bos=add_bos if isinstance(add_bos, bool) else None,
        special_tokens=special,
        generation={key: value for key, value in generation.items() if key not in NOT_SAMPLING},
    )


def _read_tokens(path: Path) -> tuple[str, _Tokens]:
    text = _read_text(path)
    try:
        return text, msgspec.json.decode(text, type=_Tokens)
    except msgspec.DecodeError as error:
        raise ModelError(f"{path}: this is not a valid tokenizer.json: {error}") from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: the file cannot be read: {error}") from error


def _special_tokens(*files: Mapping[str, Any]) -> dict[str, str]:
    """Texts by role; a token is written as a text or as an object with `content`. Later files win."""
    found = {}
    for file in files:
        for role, value in file.items():
            text = value.get("content") if isinstance(value, Mapping) else value
            if role.endswith("_token") and isinstance(text, str):
                found[role] = text
    return found


def _ids(stated: Any, folder: Path) -> Iterable[int]:
    ids = stated if isinstance(stated, list) else [] if stated is None else [stated]
    for each in ids:
        if isinstance(each, bool) or not isinstance(each, int) or each < 0:
            raise ModelError(f"{folder}: token ids in the configuration must be integers, found {each!r}")
    return ids


def _first(*ids: int | None) -> int | None:
    return next((each for each in ids if each is not None), None)


def _chat_templates(folder: Path, options: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name. Files of their own win over the tokenizer's configuration."""
    stated = options.get("chat_template")
    found: dict[str, str] = {}
    if isinstance(stated, str):
        found["default"] = stated
    elif isinstance(stated, list):
        for entry in stated:
            if not isinstance(entry, Mapping) or not {"name", "template"} <= entry.keys():
                where = folder / "tokenizer_config.json"
                raise ModelError(f"{where}: a named chat_template needs 'name' and 'template', found {entry!r}")
            found[str(entry["name"])] = str(entry["template"])
    for variants in ("chat_templates", "additional_chat_templates"):
        found |= {file.stem: _read_text(file) for file in (folder / variants).glob("*.jinja")}
    single = folder / "chat_template.jinja"
    if single.exists():
        found["default"] = _read_text(single)
    return found
