"""Conformance of model families: parity with transformers, or a reference of one's own, on tiny random checkpoints.

class TestMine(ModelConformance):
    family = "mine"
    checkpoints = {"plain": make_mine, "tied": partial(make_mine, tied=True)}
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from infer_api.errors import ModelError
from infer_api.loaders import Checkpoint
from infer_api.manifest import ModelPlugin
from infer_api.models import ModelFamily
from infer_api.specs import CheckpointConfig
from infer_testkit.model_run import ModelRun
from infer_testkit.plugin import PluginConformance, find_manifest, load_implementation, make_options, make_plugin

__all__ = ["ModelConformance"]


class ModelConformance(PluginConformance):
    """Fill in `family` and `checkpoints`. Each of the latter writes a Hugging Face folder at a path and returns it."""

    kind = "models"
    family: ClassVar[str]
    """Name of the installed plugin."""
    checkpoints: ClassVar[Mapping[str, Callable[[Path], Path]]]
    tolerance: ClassVar[float] = 1e-4
    """Largest accepted distance of logits, as a share of the largest logit."""
    num_tokens: ClassVar[int] = 90
    """Length of the longest prompt; past every window and trained length of the checkpoints, ideally."""
    required_keys: ClassVar[frozenset[str]] = frozenset({"hidden_size", "num_hidden_layers"})
    """Keys of config.json that no default may stand in for; some of them, to be checked."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test that takes a `folder` for every checkpoint."""
        if "folder" in metafunc.fixturenames:
            metafunc.parametrize("folder", list(self.checkpoints), indirect=True)

    def plugin_name(self) -> str:
        return self.family

    def make_family(self) -> ModelFamily:
        """The family under test, with its default options."""
        family: ModelFamily = make_plugin("models", self.family)
        return family

    @pytest.fixture
    def folder(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        """One of the checkpoints, freshly written."""
        return self.checkpoints[request.param](tmp_path / "model")

    @pytest.fixture
    def checkpoint(self, folder: Path) -> Checkpoint:
        """The folder as core opens it."""
        manifest = find_manifest("loaders", "safetensors")
        checkpoint: Checkpoint = load_implementation(manifest)(folder, make_options(manifest))
        return checkpoint

    def run(self, checkpoint: Checkpoint) -> ModelRun:
        """The checkpoint loaded by core into the model."""
        return ModelRun(self.make_family(), checkpoint, make_plugin("quantization", "dense"))

    # -- facts ------------------------------------------------------------------------------------------

    def test_the_manifest_lists_the_architecture(self, checkpoint: Checkpoint) -> None:
        manifest = find_manifest(self.kind, self.family)
        assert isinstance(manifest, ModelPlugin)
        assert checkpoint.config().architecture in manifest.supports.architectures["hf"]

    def test_facts_are_plain_data(self, checkpoint: Checkpoint) -> None:
        facts = self.make_family().facts(checkpoint.config())
        assert pickle.loads(pickle.dumps(facts)) == facts
        assert hash(facts.plugin) == hash(pickle.loads(pickle.dumps(facts.plugin)))
        assert (facts.architecture, facts.dialect) == (checkpoint.config().architecture, "hf")

    def test_a_missing_key_is_named_or_has_a_default(self, checkpoint: Checkpoint) -> None:
        config = checkpoint.config()
        family, refused = self.make_family(), set()
        for key in config.values:
            without = replace(config, values={name: value for name, value in config.values.items() if name != key})
            message = _refusal(family, without)
            if message is not None:
                assert repr(key) in message, f"the message does not name {key!r}: {message}"
                assert config.where in message, f"the message does not name the file: {message}"
                refused.add(key)
        assert self.required_keys <= refused, "a size of the model was made up"

    # -- parity -----------------------------------------------------------------------------------------

    def test_logits_of_a_prompt_equal_the_reference(
        self, folder: Path, checkpoint: Checkpoint, rng: torch.Generator
    ) -> None:
        run = self.run(checkpoint)
        ids = self.random_ids(run, rng, self.num_tokens)
        self.assert_close(run.step({"a": ids})["a"], self.reference_logits(folder, ids))

    def test_chunks_and_neighbours_change_nothing(
        self, folder: Path, checkpoint: Checkpoint, rng: torch.Generator
    ) -> None:
        run = self.run(checkpoint)
        long, short = self.random_ids(run, rng, 41), self.random_ids(run, rng, 8)
        steps: Sequence[dict[str, list[int]]] = (
            {"long": long[:7], "short": short[:5]},
            {"long": long[7:40], "short": short[5:6]},
            {"long": long[40:], "short": short[6:]},
        )
        seen: dict[str, list[Tensor]] = {"long": [], "short": []}
        for step in steps:
            for name, scores in run.step(step).items():
                seen[name].append(scores)
        self.assert_close(torch.cat(seen["long"]), self.reference_logits(folder, long))
        self.assert_close(torch.cat(seen["short"]), self.reference_logits(folder, short))

    def reference_logits(self, folder: Path, ids: Sequence[int]) -> Tensor:
        """Scores [T, V] float32 after each token, by other code than the family's: transformers, unless overridden."""
        return transformers_logits(folder, ids)

    def random_ids(self, run: ModelRun, rng: torch.Generator, count: int) -> list[int]:
        """Token ids of the model's vocabulary."""
        ids: list[int] = torch.randint(run.facts.vocab_size, (count,), generator=rng).tolist()
        return ids

    def assert_close(self, got: Tensor, expected: Tensor) -> None:
        """Compare logits, relative to the largest of them."""
        bound = self.tolerance * float(expected.abs().max())
        torch.testing.assert_close(got, expected, rtol=0.0, atol=bound)


def _refusal(family: ModelFamily, config: CheckpointConfig) -> str | None:
    try:
        family.facts(config)
    except ModelError as error:
        return str(error)
    return None


@torch.inference_mode()
def transformers_logits(folder: Path, ids: Sequence[int]) -> Tensor:
    """Scores [T, V] by transformers, one token after the other through its cache.

    Token by token, so that ropes which depend on the length of the sequence see each token at its own length,
    as infer defines it.
    """
    from transformers import AutoModelForCausalLM, DynamicCache

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    cache = DynamicCache(config=model.config)
    rows = [model(torch.tensor([[each]]), cache=cache, use_cache=True).logits[0] for each in ids]
    return torch.cat(rows)
