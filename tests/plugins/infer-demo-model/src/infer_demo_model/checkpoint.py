"""Writes a tiny checkpoint with random weights, to try the plugin with: python -m infer_demo_model.checkpoint FOLDER

Needs safetensors and tokenizers (`pip install infer-demo-model[checkpoint]`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["CONFIG", "random_tensors", "write_checkpoint"]

SPECIAL_TOKENS = ("<bos>", "<eos>")
NUM_BYTES = 256
CONFIG: dict[str, Any] = {
    "architectures": ["DemoForCausalLM"],
    "num_blocks": 3,
    "stream_width": 32,
    "query_heads": 4,
    "key_heads": 2,
    "head_width": 8,
    "hidden_width": 48,
    "vocab_size": 264,  # wider than the 258 tokens, as padded models are
    "max_tokens": 512,
    "residual_scale": 0.8,
    "rope_base": 5000.0,
    "norm_eps": 1e-5,
    "tied": True,
    "dtype": "float32",
    "bos_token_id": NUM_BYTES,
    "eos_token_id": NUM_BYTES + 1,
}
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def random_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random float32 tensors under the checkpoint's names, scaled so that the scores differ clearly."""
    rng = torch.Generator().manual_seed(seed)
    width, head, hidden = config["stream_width"], config["head_width"], config["hidden_width"]
    q_width, kv_width = config["query_heads"] * head, config["key_heads"] * head

    def matrix(d_out: int, d_in: int) -> Tensor:
        return torch.randn(d_out, d_in, generator=rng) * 1.5 * d_in**-0.5

    def scale() -> Tensor:
        return 1 + 0.1 * torch.randn(width, generator=rng)

    tensors = {"tokens.weight": torch.randn(config["vocab_size"], width, generator=rng), "last_norm.weight": scale()}
    for index in range(config["num_blocks"]):
        at = f"decoder.{index}"
        tensors[f"{at}.norm.weight"] = scale()
        tensors[f"{at}.attend.in.weight"] = matrix(q_width + 2 * kv_width, width)
        tensors[f"{at}.attend.out.weight"] = matrix(width, q_width)
        tensors[f"{at}.think.in.weight"] = matrix(2 * hidden, width)
        tensors[f"{at}.think.out.weight"] = matrix(width, hidden)
    if not config["tied"]:
        tensors["head.weight"] = matrix(config["vocab_size"], width)
    return tensors


def write_checkpoint(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write config, weights and a byte-level tokenizer into `folder` and return it. `changes` replace config keys."""
    from safetensors.torch import save_file

    config = {**CONFIG, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    save_file(random_tensors(config, seed), folder / "model.safetensors", metadata={"format": "pt"})
    _byte_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<bos>", "eos_token": "<eos>", "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return folder


def _byte_tokenizer() -> Any:
    """One token per byte, and the special ones: everything can be written, nothing has to be trained."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocab = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    assert len(vocab) == NUM_BYTES
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


if __name__ == "__main__":
    sys.stdout.write(f"{write_checkpoint(Path(sys.argv[1]))}\n")
