"""Small tokenizers, made by the `tokenizers` library on the spot."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from infer_api.tokenizers import TokenizerSource
from infer_tokenizer_json.tokenizer import JsonTokenizer

CORPUS = [
    "Seven green bottles hang on the wall, and one more by the door.",
    "the cat sat on the mat",
    "héllo wörld 日本",
]
IM_START, IM_END = "<|im_start|>", "<|im_end|>"


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """Byte-level BPE; 0 = <|im_start|>, 1 = <|im_end|> (special), no BOS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[IM_START, IM_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False), AddedToken("<café>", special=False)])
    return tokenizer


@pytest.fixture(scope="session")
def sentencepiece() -> Tokenizer:
    """BPE with byte fallback as Llama 2 has it: "▁" for spaces, one before every text, <s> by the processor."""
    specials = ["<unk>", "<s>", "</s>"]
    vocab = {token: at for at, token in enumerate([*specials, *(f"<0x{byte:02X}>" for byte in range(256))])}
    for char in "▁abcdefghijklmnopqrstuvwxyzé.,!?":
        vocab.setdefault(char, len(vocab))
    merges = [("▁", "a"), ("▁", "▁"), ("▁▁", "▁▁"), ("t", "h"), ("th", "e"), ("▁", "the"), ("c", "a"), ("ca", "t")]
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


@pytest.fixture(scope="session")
def source_of():
    """Makes a TokenizerSource of a library tokenizer."""

    def make(tokenizer: Tokenizer, **fields) -> TokenizerSource:
        return TokenizerSource(format="tokenizer.json", data=tokenizer.to_str(), where="test/tokenizer.json", **fields)

    return make


@pytest.fixture(scope="session")
def byte_tokenizer(byte_level, source_of) -> JsonTokenizer:
    return JsonTokenizer(source_of(byte_level, eos_ids=(1,)))
