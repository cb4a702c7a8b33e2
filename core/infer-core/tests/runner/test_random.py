from __future__ import annotations

import torch

from infer.runner.random import uniform

MASK = (1 << 64) - 1


def split_mix(state: int) -> int:
    z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def reference(seed: int, position: int) -> float:
    gamma = 0x9E3779B97F4A7C15
    mixed = split_mix((split_mix((seed * gamma + gamma) & MASK) + position * gamma) & MASK)
    return (mixed >> 11) * 2.0**-53


def test_numbers_equal_those_of_unsigned_integer_arithmetic() -> None:
    seeds = torch.randint(0, 2**62, (200,)) * 2 + torch.randint(0, 2, (200,))
    positions = torch.randint(0, 100_000, (200,))
    got = uniform(seeds, positions).tolist()
    assert got == [reference(s, p) for s, p in zip(seeds.tolist(), positions.tolist(), strict=True)]


def test_numbers_are_spread_evenly_over_positions_and_over_seeds() -> None:
    many = torch.arange(100_000)
    for drawn in (uniform(torch.full_like(many, 7), many), uniform(many, torch.full_like(many, 7))):
        counts = torch.histc(drawn, bins=100, min=0, max=1)
        chi_square = float(((counts - 1000) ** 2 / 1000).sum())
        assert 40 < chi_square < 180
        assert float(drawn.min()) >= 0
        assert float(drawn.max()) < 1
