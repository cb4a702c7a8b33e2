"""What the prefix cache saves: 16 requests that begin with the same 1,024 tokens, and a prompt that is sent again.

    python tests/load/prefix.py [--model smollm2] [--requests 16] [--prefix 1024] [--own 16] [--max-tokens 8]
                                [--repeat 3] [--json FILE] [-- flags of `infer serve`]

Two servers run one after the other, one with the cache and one without. Each repetition has a prefix of its own, sent
by all requests at once, so the time with the cache holds the first computation of the prefix as well. Prints medians.
Exit status 1 when the cache makes it less than 4 times faster, or when an answer differs between the two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tools_path  # noqa: F401
from served import serving
from stall import first_token_s, random_ids
from wire import Address, post

__all__ = ["Savings", "main"]

LEAST_RATIO = 4.0


@dataclass
class Savings:
    """Of one server: wall seconds of each repetition, seconds to the first token cold and again, and all answers."""

    wall_s: list[float] = field(default_factory=list)
    cold_s: list[float] = field(default_factory=list)
    again_s: list[float] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    cached_tokens: list[int] = field(default_factory=list)


async def measure(address: Address, options: argparse.Namespace) -> Savings:
    rng, savings = random.Random(5), Savings()
    await post(address, "/v1/completions", {"prompt": random_ids(rng, 64), "max_tokens": 4}, 300)  # wakes everything up
    for _ in range(options.repeat):
        prefix = random_ids(rng, options.prefix)
        bodies = [
            {
                "prompt": prefix + random_ids(rng, options.own),
                "max_tokens": options.max_tokens,
                "temperature": 0,
                "ignore_eos": True,
            }
            for _ in range(options.requests)
        ]
        started = time.perf_counter()
        replies = await asyncio.gather(*(post(address, "/v1/completions", body, 600) for body in bodies))
        savings.wall_s.append(time.perf_counter() - started)
        for head, data in replies:
            assert head.status == 200, data
            reply = json.loads(data)
            savings.answers.append(reply["choices"][0]["text"])
            details = reply["usage"].get("prompt_tokens_details") or {}
            savings.cached_tokens.append(details.get("cached_tokens") or 0)
        prompt = random_ids(rng, options.prefix + options.own)
        savings.cold_s.append(await first_token_s(address, prompt))
        savings.again_s.append(await first_token_s(address, prompt))
    return savings


def report(with_cache: Savings, without: Savings) -> dict[str, Any]:
    medians = {
        name: [round(statistics.median(getattr(each, name)), 4) for each in (with_cache, without)]
        for name in ("wall_s", "cold_s", "again_s")
    }
    differing = sum(a != b for a, b in zip(with_cache.answers, without.answers, strict=True))
    return {
        "wall_s with and without the cache": medians["wall_s"],
        "ratio": round(medians["wall_s"][1] / medians["wall_s"][0], 2),
        "first token of a new prompt, s, with and without": medians["cold_s"],
        "first token of a repeated prompt, s, with and without": medians["again_s"],
        "cached tokens reported with the cache": sum(with_cache.cached_tokens),
        "cached tokens reported without": sum(without.cached_tokens),
        "answers that differ": differing,
        "answers": len(without.answers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prefix", type=int, default=1024)
    parser.add_argument("--own", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--infer", type=Path, default=Path(sys.executable).with_name("infer"))
    parser.add_argument("--home", type=Path, help="folder of fetched models (INFER_HOME)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("flags", nargs="*", metavar="FLAG", help="more flags of `infer serve`, after --")
    options = parser.parse_args()
    found = []
    for caching in ("--enable-prefix-caching", "--no-enable-prefix-caching"):
        sizes = ["--max-model-len", "2048", "--kv-cache-memory", "1GiB", caching, *options.flags]
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(options.infer, [options.model], Path(folder), sizes=sizes, home=options.home) as served,
        ):
            found.append(asyncio.run(measure(Address.of(served.url), options)))
    result = report(*found)
    text = json.dumps(result, indent=1)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    sys.exit(result["ratio"] < LEAST_RATIO or result["answers that differ"] > 0)


if __name__ == "__main__":
    main()
