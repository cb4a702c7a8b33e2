"""Conformance of attention backends: each test compares with a reference in double precision.

class TestMine(AttentionConformance):
    backend = "mine"
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from infer_api.attention import AttentionBackend
from infer_api.layers import Rotary
from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSite, AttentionSpec, KVSpec, KVTensor, Reason
from infer_testkit.paged import PagedRun, StepOutcome
from infer_testkit.plugin import PluginConformance, make_plugin
from infer_testkit.reference import RotaryTables, rotary_tables

__all__ = ["AttentionConformance"]

SHAPES = {"grouped": (9, 3, 64), "single kv head": (4, 1, 32), "plain": (5, 5, 16), "odd groups": (6, 2, 40)}
"""(query heads, kv heads, head width) by name."""


class AttentionConformance(PluginConformance):
    """Fill in `backend`; the other attributes say where and how exactly it is tried."""

    kind = "attention"
    backend: ClassVar[str]
    """Name of the installed plugin."""

    device: ClassVar[str] = "cpu"
    dtype: ClassVar[torch.dtype] = torch.float32
    tolerance: ClassVar[float] = 2e-5
    """Largest accepted distance from the reference, absolute and relative."""
    block_tokens: ClassVar[int] = 16
    max_positions: ClassVar[int] = 2048

    def plugin_name(self) -> str:
        return self.backend

    def make_backend(self) -> AttentionBackend:
        """The backend under test, with its default options."""
        backend: AttentionBackend = make_plugin("attention", self.backend)
        return backend

    # -- making cases -----------------------------------------------------------------------------------

    def spec(self, shape: str = "grouped", **more: Any) -> AttentionSpec:
        """A layer of one of the named shapes."""
        heads, groups, size = SHAPES[shape]
        return AttentionSpec(heads, groups, size, scale=size**-0.5, **more)

    def rope(self, size: int = 64, *, interleaved: bool = False) -> RotaryTables:
        """Tables on the device under test."""
        tables = rotary_tables(RopeSpec(size, interleaved=interleaved), self.max_positions)
        return RotaryTables(tables.spec, tables.cos_PR.to(self.device), tables.sin_PR.to(self.device))

    def paged(
        self,
        rng: torch.Generator,
        spec: AttentionSpec,
        rope: Rotary | None = None,
        *,
        optional: bool = False,
        **more: Any,
    ) -> PagedRun:
        """A run over a poisoned cache. A feature that the backend declares missing skips, if `optional`."""
        backend = self.make_backend()
        more.setdefault("block_tokens", self.block_tokens)
        run = PagedRun(backend, spec, rng, rope=rope, device=self.device, dtype=self.dtype, **more)
        refusal = backend.check(run.site())
        if refusal is not None:
            (pytest.skip if optional else pytest.fail)(f"the backend refuses this layer: {refusal.text}")
        return run

    def assert_right(self, outcome: StepOutcome, *rows: str) -> None:
        """Compare the named rows (all unless named) with the reference."""
        for name in rows or outcome.got:
            got, expected = outcome.got[name].double(), outcome.expected[name]
            try:
                torch.testing.assert_close(got, expected, rtol=self.tolerance, atol=self.tolerance)
            except AssertionError as error:
                raise AssertionError(f"row {name!r}: {error}") from None

    # -- what it says of itself -------------------------------------------------------------------------

    def test_refuses_an_unknown_dtype_with_a_reason(self) -> None:
        site = AttentionSite(self.spec(), self.device, "complex64", "complex64", self.block_tokens)
        refusal = self.make_backend().check(site)
        assert isinstance(refusal, Reason)
        assert refusal.text

    def test_layout_counts_the_bytes_of_its_shapes(self) -> None:
        spec = KVSpec((KVTensor("k", 3, 64), KVTensor("v", 3, 64)))
        dtype = str(self.dtype).removeprefix("torch.")
        layout = self.make_backend().layout(spec, self.block_tokens, dtype)
        num_values = sum(torch.Size(shape).numel() for shape in layout.shapes.values())
        assert set(layout.shapes) == {"k", "v"}
        assert layout.bytes_per_block == num_values * getattr(torch, layout.dtype).itemsize
        assert layout.bytes_per_block >= 2 * 3 * 64 * self.block_tokens * getattr(torch, layout.dtype).itemsize

    # -- prompts ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("shape", SHAPES)
    def test_prompts_of_odd_lengths(self, rng: torch.Generator, shape: str) -> None:
        run = self.paged(rng, self.spec(shape), self.rope(SHAPES[shape][2]))
        self.assert_right(run.step({"a": 37, "b": 1, "c": 16, "d": 17, "e": 130}))

    def test_prompts_of_equal_length(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope())
        self.assert_right(run.step({"a": 33, "b": 33, "c": 33, "d": 7, "e": 33}))

    @pytest.mark.parametrize("chunk", [1, 5, 16, 33])
    def test_a_prompt_in_chunks(self, rng: torch.Generator, chunk: int) -> None:
        run = self.paged(rng, self.spec("odd groups"), self.rope(40))
        for _ in range(3):
            self.assert_right(run.step({"a": chunk}))

    # -- decoding ---------------------------------------------------------------------------------------

    def test_decoding_rows_of_very_different_lengths(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope())
        lengths = [1, 15, 16, 17, 31, 32, 63, 150, 151, 260]
        run.step({f"r{length}": length for length in lengths})
        for _ in range(18):  # crosses a block border in every row
            self.assert_right(run.step({f"r{length}": 1 for length in reversed(lengths)}))

    def test_decodes_beside_chunks_and_new_prompts(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope())
        run.step({"old": 40, "older": 97, "chunked": 21})
        self.assert_right(run.step({"old": 1, "chunked": 30, "new": 19, "older": 1, "newer": 1}))
        self.assert_right(run.step({"old": 3, "chunked": 3, "new": 1, "older": 3, "newer": 1}))

    def test_a_row_is_the_same_alone_and_in_company(self, rng: torch.Generator) -> None:
        seed = int(torch.randint(2**31, (1,), generator=rng))
        alone = self._row_a({"a": 1}, {"a": 50}, seed)
        company = self._row_a({"a": 1, "b": 1, "c": 9}, {"a": 50, "b": 200, "c": 3}, seed)
        torch.testing.assert_close(alone, company, rtol=self.tolerance, atol=self.tolerance)

    def _row_a(self, step: dict[str, int], before: dict[str, int], seed: int) -> torch.Tensor:
        # One generator a row in effect: row "a" comes first in both steps, so it draws the same numbers.
        run = self.paged(torch.Generator().manual_seed(seed), self.spec(), self.rope())
        for name, count in before.items():
            run.rng.manual_seed(seed + len(name) + count)
            run.step({name: count})
        run.rng.manual_seed(seed)
        return run.step(step).got["a"]

    def test_the_same_step_gives_the_same_bits(self, rng: torch.Generator) -> None:
        seed = int(torch.randint(2**31, (1,), generator=rng))
        first, second = (self._row_a({"a": 1, "b": 1, "c": 9}, {"a": 50, "b": 90, "c": 3}, seed) for _ in range(2))
        assert torch.equal(first, second)

    # -- the cache --------------------------------------------------------------------------------------

    def test_a_prefix_shared_with_another_row(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope())
        run.step({"owner": 4 * self.block_tokens + 5})
        run.share_prefix("reuse", "owner", 3)
        run.share_prefix("other", "owner", 1)
        self.assert_right(run.step({"owner": 1, "reuse": 20, "other": 2 * self.block_tokens + 1}))
        self.assert_right(run.step({"owner": 1, "reuse": 1, "other": 1}))

    def test_blocks_of_a_failed_row_can_be_used_again(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope())
        outcome = run.step({"broken": 45, "fine": 20}, poisoned=frozenset({"broken"}))
        self.assert_right(outcome, "fine")
        run.finish("broken")
        self.assert_right(run.step({"next": 3, "fine": 1}))
        self.assert_right(run.step({"next": 1, "fine": 1}))

    def test_a_failed_row_does_not_touch_its_neighbours(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope())
        run.step({"a": 30, "broken": 33, "c": 31})
        for counts in ({"a": 1, "broken": 1, "c": 1}, {"a": 5, "broken": 5, "c": 5}):
            self.assert_right(run.step(counts, poisoned=frozenset({"broken"})), "a", "c")

    def test_blocks_that_are_not_adjacent_in_memory(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope(), gap=24)
        self.assert_right(run.step({"a": 37, "b": 16}))
        self.assert_right(run.step({"a": 1, "b": 1, "c": 18}))
        self.assert_right(run.step({"a": 4, "b": 1, "c": 1}))

    # -- features ---------------------------------------------------------------------------------------

    @pytest.mark.parametrize("window", [1, 7, 16, 33])
    def test_a_sliding_window(self, rng: torch.Generator, window: int) -> None:
        run = self.paged(rng, self.spec("single kv head", window=window), self.rope(32), optional=True)
        self.assert_right(run.step({"a": 70, "b": 5, "c": 34}))
        self.assert_right(run.step({"a": 1, "b": 1, "c": 20}))
        for _ in range(3):
            self.assert_right(run.step({"a": 1, "b": 1, "c": 1}))

    @pytest.mark.parametrize("window", [None, 20])
    def test_capped_scores(self, rng: torch.Generator, window: int | None) -> None:
        # The cap is far below the scores' spread, so that leaving it out shows.
        spec = self.spec(softcap=0.7, window=window)
        run = self.paged(rng, spec, self.rope(), optional=True)
        self.assert_right(run.step({"a": 33, "b": 12}))
        self.assert_right(run.step({"a": 1, "b": 9}))
        self.assert_right(run.step({"a": 1, "b": 1}))

    @pytest.mark.parametrize("softcap", [None, 0.7])
    def test_attention_in_both_directions(self, rng: torch.Generator, softcap: float | None) -> None:
        spec = self.spec(causal=False, softcap=softcap)
        run = self.paged(rng, spec, self.rope(), optional=True)
        self.assert_right(run.step({"a": 33, "b": 1, "c": 33, "d": 8}))

    def test_without_rope(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec())
        self.assert_right(run.step({"a": 20, "b": 3}))
        self.assert_right(run.step({"a": 1, "b": 1}))

    @pytest.mark.parametrize("interleaved", [False, True])
    def test_rope_over_a_part_of_the_head(self, rng: torch.Generator, interleaved: bool) -> None:
        run = self.paged(rng, self.spec(), self.rope(24, interleaved=interleaved))
        self.assert_right(run.step({"a": 20, "b": 33}))
        self.assert_right(run.step({"a": 1, "b": 1}))

    def test_layers_of_one_group_may_differ_in_rope(self, rng: torch.Generator) -> None:
        run = self.paged(rng, self.spec(), self.rope())
        run.step({"a": 20})
        other = self.paged(rng, self.spec(), self.rope(64, interleaved=True))
        other.meta = run.meta
        other.step({"a": 20})
        self.assert_right(other.step({"a": 1}))
        self.assert_right(run.step({"a": 1}))
