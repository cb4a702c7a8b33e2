from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infer_bench.options import BenchOptions
from infer_bench.prompts import IdWriter, WordWriter, make_prompts


class Counter:
    """A tokenizer that puts one token before the text, and takes two for each word of five letters or more."""

    async def count(self, text: str) -> int:
        return 1 + sum(1 + (len(word) >= 5) for word in text.split())


async def test_ids_are_of_the_vocabulary_and_of_the_asked_length() -> None:
    prompts = await make_prompts(BenchOptions(input_len=9, output_len=4), IdWriter(50), 5, 0)
    assert [(len(prompt.content), prompt.input_len, prompt.output_len) for prompt in prompts] == [(9, 9, 4)] * 5
    assert {token_id for prompt in prompts for token_id in prompt.content} <= set(range(50))


async def test_every_run_has_its_own_prompts_and_the_same_again_by_its_seed() -> None:
    options = BenchOptions(input_len=9)
    first, again, other = [await make_prompts(options, IdWriter(50), 3, run) for run in (0, 0, 1)]
    assert first == again
    assert not any(prompt in other for prompt in first)


async def test_lengths_are_drawn_around_the_middle() -> None:
    options = BenchOptions(input_len=100, output_len=10, range_ratio=0.5)
    prompts = await make_prompts(options, IdWriter(50), 400, 0)
    inputs, outputs = {prompt.input_len for prompt in prompts}, {prompt.output_len for prompt in prompts}
    assert (min(inputs) >= 50, max(inputs) <= 150, len(inputs) > 60) == (True, True, True)
    assert outputs == set(range(5, 16))


async def test_prefixes_are_shared_in_turn() -> None:
    options = BenchOptions(dataset="shared-prefix", input_len=4, prefix_len=6, num_prefixes=2)
    contents = [prompt.content for prompt in await make_prompts(options, IdWriter(50), 4, 0)]
    assert [len(content) for content in contents] == [10] * 4
    assert contents[0][:6] == contents[2][:6] != contents[1][:6] == contents[3][:6]
    assert contents[0][6:] != contents[2][6:]


async def test_words_are_trimmed_to_the_exact_length_where_tokens_can_be_counted() -> None:
    counter: Any = Counter()
    for length in (2, 3, 16, 61):
        prompts = await make_prompts(BenchOptions(input_len=length), WordWriter(counter), 6, 0)
        assert [await counter.count(prompt.content) for prompt in prompts] == [length] * 6
        assert {prompt.input_len for prompt in prompts} == {length}


async def test_trimmed_words_still_share_their_prefix() -> None:
    options = BenchOptions(dataset="shared-prefix", input_len=20, prefix_len=30)
    counter: Any = Counter()
    prompts = await make_prompts(options, WordWriter(counter), 3, 0)
    words = [prompt.content.split() for prompt in prompts]
    assert words[0][:25] == words[1][:25] == words[2][:25]
    assert {prompt.input_len for prompt in prompts} == {50}


async def test_without_a_counter_there_is_a_word_for_each_token() -> None:
    (prompt,) = await make_prompts(BenchOptions(input_len=12), WordWriter(None), 1, 0)
    assert len(prompt.content.split()) == 12


async def test_conversations_give_question_and_length_of_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    turns = [{"from": "human", "value": "tell me"}, {"from": "gpt", "value": "no I do not"}]
    path.write_text(json.dumps([{"conversations": turns}]))
    options = BenchOptions(dataset="sharegpt", dataset_path=str(path))
    counter: Any = Counter()
    prompts = await make_prompts(options, WordWriter(counter), 3, 0)
    assert [(prompt.content, prompt.input_len, prompt.output_len) for prompt in prompts] == [("tell me", 3, 5)] * 3
    (fixed,) = await make_prompts(options.model_copy(update={"output_len": 7}), WordWriter(counter), 1, 0)
    assert fixed.output_len == 7
    (guessed,) = await make_prompts(options, WordWriter(None), 1, 0)
    assert (guessed.input_len, guessed.output_len) == (2, 3)
