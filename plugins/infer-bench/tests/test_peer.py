from __future__ import annotations

from pathlib import Path

import pytest

from infer_api.errors import ConfigError, InferError
from infer_bench.peer import TransformersPeer, peer_folder


def test_only_a_folder_with_a_config_will_do(tmp_path: Path) -> None:
    for model in ("smollm2", str(tmp_path), str(tmp_path / "model.gguf")):
        with pytest.raises(ConfigError, match="config.json"):
            peer_folder(model)
    (tmp_path / "config.json").write_text("{}")
    assert peer_folder(str(tmp_path)) == tmp_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of a few thousand weights, whose end-of-sequence id is a likely token."""
    transformers = pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp("model")
    config = transformers.LlamaConfig(
        vocab_size=13,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=list(range(13)),
    )
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


def test_it_generates_the_whole_length_for_a_batch_and_for_a_stream(folder: Path) -> None:
    peer = TransformersPeer(folder)
    peer.generate([[1, 2, 3], [4, 5, 6]], 5)
    times = peer.token_times([1, 2, 3], 5)
    assert len(times) == 5
    assert times == sorted(times)
    assert times[0] > 0
    peer.close()


def test_a_wrong_length_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = TransformersPeer(folder)
    run = peer._run
    monkeypatch.setattr(peer, "_run", lambda prompts, output_len, **more: run(prompts, output_len - 1, **more))
    with pytest.raises(InferError, match="4 tokens instead of 5"):
        peer.generate([[1, 2]], 5)
