"""Small tokenizers, made by the `tokenizers` library on the spot."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from infer_api.tokenizers import TokenizerSource

__all__ = ["byte_level_tokenizer", "sentencepiece_tokenizer", "tokenizer_source"]

CORPUS = [
    "Seven green bottles hang on the wall, and one more by the door.",
    "the cat sat on the mat",
    "héllo wörld 日本",
]
IM_START, IM_END = "<|im_start|>", "<|im_end|>"


def byte_level_tokenizer() -> Tokenizer:
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


def sentencepiece_tokenizer() -> Tokenizer:
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


def tokenizer_source(tokenizer: Tokenizer, **fields: Any) -> TokenizerSource:
    """What a checkpoint that holds `tokenizer` would hand over; `fields` are those of TokenizerSource."""
    return TokenizerSource(format="tokenizer.json", data=tokenizer.to_str(), where="test/tokenizer.json", **fields)
