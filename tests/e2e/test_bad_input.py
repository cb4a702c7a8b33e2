"""Damaged or odd input, given to the real command: one clear line, a non-zero exit status, no traceback.

All cases run beforehand, two at a time, for each of them is a process that imports torch.
"""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from fresh_venv import clean_environment
from served import SMALL
from tiny_llama import write_tiny_llama

MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
SLOWEST_S = 30.0
"""On a machine that does other things, too; alone it is about two seconds."""


@dataclass(frozen=True)
class Case:
    """How to prepare a folder, what to type then (the model unless `arguments` say else), and words of the answer."""

    prepare: Callable[[Path], Path]
    words: tuple[str, ...]
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    status: int
    lines: list[str]
    seconds: float
    output: str


def sound(folder: Path) -> Path:
    return write_tiny_llama(folder / "model")


def misspelt(folder: Path) -> Path:
    return write_tiny_llama(folder / "model").with_name("models")


def without_second_shard(folder: Path) -> Path:
    model = write_tiny_llama(folder / "model", num_shards=2)
    (model / "model-00002-of-00002.safetensors").unlink()
    return model


def with_shard_that_lacks_a_tensor(folder: Path) -> Path:
    model = write_tiny_llama(folder / "model", num_shards=2)
    index = model / "model.safetensors.index.json"
    data = json.loads(index.read_text())
    data["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors"
    others = {name: file for name, file in data["weight_map"].items() if name != "model.norm.weight"}
    data["weight_map"]["model.layers.0.mlp.extra_proj.weight"] = next(iter(others.values()))
    index.write_text(json.dumps(data))
    return model


def with_truncated_safetensors(folder: Path) -> Path:
    model = write_tiny_llama(folder / "model")
    file = model / "model.safetensors"
    os.truncate(file, file.stat().st_size - 1000)
    return model


def with_unknown_architecture(folder: Path) -> Path:
    return write_tiny_llama(folder / "model", config={"architectures": ["NoSuchForCausalLM"]})


def without(key: str) -> Callable[[Path], Path]:
    return lambda folder: write_tiny_llama(folder / "model", config={key: None})


def with_embedding_of(num_bytes: int) -> Callable[[Path], Path]:
    """A checkpoint in bfloat16 whose embedding has that size. The file is sparse: it keeps what its header promises."""

    def write(folder: Path) -> Path:
        model = write_tiny_llama(folder / "model")
        file = model / "model.safetensors"
        content = file.read_bytes()
        entries = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        entries.pop("__metadata__")
        entries["model.embed_tokens.weight"]["shape"] = [num_bytes // 64, 32]
        end = 0
        for entry in entries.values():
            start, end = end, end + 2 * math.prod(entry["shape"])
            entry |= {"dtype": "BF16", "data_offsets": [start, end]}
        header = json.dumps(entries).encode()
        file.write_bytes(struct.pack("<Q", len(header)) + header)
        os.truncate(file, 8 + len(header) + end)
        return model

    return write


def gguf_file(*, tensor_type: int = 0, missing_bytes: int = 0) -> Callable[[Path], Path]:
    """A GGUF file of one small tensor, by the letter of the format."""

    def write(folder: Path) -> Path:
        def text(value: str) -> bytes:
            return struct.pack("<Q", len(value)) + value.encode()

        pair = text("general.architecture") + struct.pack("<I", 8) + text("llama")
        info = text("output_norm.weight") + struct.pack("<IQIQ", 1, 64, tensor_type, 0)
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + pair + info
        content = head + b"\0" * (-len(head) % 32) + b"\0" * 256
        path = folder / "model.gguf"
        path.write_bytes(content[: len(content) - missing_bytes])
        return path

    return write


def no_gguf(folder: Path) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(b"this is text, whatever its name says")
    return path


def yaml_beside(text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "config.yaml").write_text(text)
        return sound(folder)

    return write


FROM_YAML = ("--config", "{folder}/config.yaml")
CASES: dict[str, Case] = {
    "no such model": Case(misspelt, ("no such model", "models", "Did you mean", "/model'")),
    "missing shard": Case(without_second_shard, ("model-00002-of-00002.safetensors",)),
    "index names a tensor that its shard lacks": Case(with_shard_that_lacks_a_tensor, ("extra_proj", "model-0000")),
    "truncated safetensors": Case(with_truncated_safetensors, ("model.safetensors", "truncated")),
    "truncated GGUF": Case(gguf_file(missing_bytes=100), ("model.gguf", "truncated", "byte 384", "byte 284")),
    "unknown GGUF type": Case(gguf_file(tensor_type=99), ("model.gguf", "99", "output_norm.weight")),
    "no GGUF": Case(no_gguf, ("model.gguf", "GGUF")),
    "unknown architecture": Case(with_unknown_architecture, ("NoSuchForCausalLM", "LlamaForCausalLM")),
    "no architecture": Case(without("architectures"), ("config.json", "architectures")),
    "config key missing": Case(without("hidden_size"), ("config.json", "hidden_size")),
    # Stored in 2 bytes a value and computed in 4: half as much again as all memory of the machine.
    "model too large for memory": Case(with_embedding_of(MEMORY_BYTES // 4 * 3), ("the weights need", "GiB", "memory")),
    "file too large to be mapped": Case(with_embedding_of(2**42), ("model.safetensors", "4,096.0 GiB", "memory")),
    "KV cache too large for memory": Case(sound, ("--kv-cache-memory",), ("--kv-cache-memory", "900TiB")),
    "longer than the model": Case(sound, ("--max-model-len", "513", "512"), ("--max-model-len", "513")),
    "unknown flag": Case(sound, ("--prot", "--port"), ("--prot", "1")),
    "unknown backend": Case(sound, ("torche", "torch"), ("--attention-backend", "torche")),
    "value out of bounds": Case(sound, ("port", "99999"), ("--port", "99999")),
    "unknown YAML key": Case(yaml_beside("server:\n  prot: 1\n"), ("config.yaml", "prot", "port"), FROM_YAML),
    "unknown YAML group": Case(yaml_beside("sever:\n  port: 1\n"), ("config.yaml", "sever", "server"), FROM_YAML),
    "broken YAML": Case(yaml_beside("server: [1\nport: 2\n"), ("config.yaml:2", "YAML"), FROM_YAML),
    "unknown command": Case(sound, ("sevre", "serve"), ("sevre",)),
}


def run_case(infer: Path, case: Case, folder: Path) -> Outcome:
    """`infer serve MODEL ARGUMENTS`, the way a person would meet the error."""
    model = str(case.prepare(folder))
    asked = [argument.format(folder=folder) for argument in case.arguments]
    command = asked if asked and not asked[0].startswith("-") else ["serve", model, "--port", "0", *SMALL, *asked]
    if "--port" in asked:
        command = ["serve", model, *asked]
    environment = clean_environment() | {"INFER_HOME": str(folder / "home")}
    started = time.monotonic()
    done = subprocess.run(
        [str(infer), *command], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return Outcome(done.returncode, lines, time.monotonic() - started, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def outcomes(infer: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Outcome]:
    """What happened in each case."""
    folders = [tmp_path_factory.mktemp("case") for _ in CASES]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda case, folder: run_case(infer, case, folder), CASES.values(), folders))
    return dict(zip(CASES, done, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_bad_input_ends_in_one_clear_line(outcomes: Mapping[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    assert outcome.status in (1, 2), outcome.output
    assert len(outcome.lines) == 1, outcome.output
    assert outcome.lines[0].startswith("infer: error: ")
    missing = [word for word in CASES[name].words if word not in outcome.lines[0]]
    assert missing == [], outcome.lines[0]
    assert outcome.seconds < SLOWEST_S
