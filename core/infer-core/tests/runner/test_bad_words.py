"""The automaton against a reference that joins bytes and looks."""

from __future__ import annotations

import random
import time

import pytest
import torch

from infer.runner import bad_words
from infer.runner.bad_words import BadWords, Vocabulary

CPU = torch.device("cpu")


def vocabulary(tokens: list[bytes]) -> Vocabulary:
    return Vocabulary(tokens, len(tokens), CPU)


def banned(words: BadWords, width: int) -> set[int]:
    scores_V = torch.zeros(width)
    words.forbid(scores_V)
    return set((scores_V == float("-inf")).nonzero()[:, 0].tolist())


def reference(words: list[str], text: bytes, tokens: list[bytes]) -> set[int]:
    """A token is banned when some word ends within it, wherever it began in the text."""
    encoded = [word.encode() for word in words]
    return {
        token_id
        for token_id, token in enumerate(tokens)
        if token and any(word in text[max(0, len(text) - len(word) + 1) :] + token for word in encoded)
    }


@pytest.mark.parametrize("letters", ["ab", "abc ", "aé\n"])
def test_banned_tokens_are_those_with_which_a_word_would_be_complete(letters: str) -> None:
    for _ in range(15):
        seed = random.SystemRandom().randrange(2**31)
        rng = random.Random(seed)
        every_byte = [bytes([byte]) for byte in {*letters.encode(), 200}]
        pieces = ["".join(rng.choices(letters, k=rng.randrange(1, 6))).encode() for _ in range(60)]
        cut = [piece[rng.randrange(len(piece)) :] for piece in pieces]  # also in the middle of a character
        tokens = [*every_byte, b"", *pieces, *cut]
        words = ["".join(rng.choices(letters, k=rng.randrange(1, 8))) for _ in range(rng.randrange(1, 5))]
        state, text = BadWords(words, vocabulary(tokens)), b""
        for _ in range(25):
            want = reference(words, text, tokens)
            assert banned(state, len(tokens)) == want, f"seed {seed}, words {words}, text {text!r}"
            free = [each for each in range(len(tokens)) if each not in want]
            token_id = rng.choice(free)
            state.take(token_id)
            text += tokens[token_id]
            assert not any(word.encode() in text for word in words)


def test_a_word_is_banned_bare_after_a_space_and_after_a_newline_whole_and_in_pieces() -> None:
    tokens = [b"cat", b" cat", b"\ncat", b"c", b"at", b"a", b"t", b"con", b"cate", b"Cat", b" ca", b"ts"]
    state = BadWords(["cat"], vocabulary(tokens))
    assert {tokens[each] for each in banned(state, 12)} == {b"cat", b" cat", b"\ncat", b"cate"}
    state.take(10)  # " ca"
    assert {tokens[each] for each in banned(state, 12)} == {b"cat", b" cat", b"\ncat", b"cate", b"t", b"ts"}
    state.take(3)  # "c": another beginning
    assert {tokens[each] for each in banned(state, 12)} == {b"cat", b" cat", b"\ncat", b"cate", b"at"}


def test_special_tokens_have_no_text_and_do_not_part_a_word() -> None:
    tokens = [b"ca", b"", b"t", b"x"]
    state = BadWords(["cat"], vocabulary(tokens))
    state.take(0)
    state.take(1)
    state.take(77)  # an id that the vocabulary lacks
    assert banned(state, 4) == {2}


def test_a_word_that_json_can_spell_and_text_cannot_bans_nothing() -> None:
    assert banned(BadWords(["\ud800"], vocabulary([b"a", b"\xff"])), 2) == set()


def test_tokens_beyond_the_output_layer_are_left_out() -> None:
    assert banned(BadWords(["a"], Vocabulary([b"a", b"b", b"a"], 2, CPU)), 2) == {0}


def test_words_that_no_token_contains_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bad_words, "MAX_CACHED_IDS", 10_000)
    known = vocabulary([b"a"])
    first = known.word(b"0" * 500)
    assert known.word(b"0" * 500) is first
    for letter in b"123":
        known.word(bytes([letter]) * 500)
    assert known.word(b"0" * 500) is not first


def test_words_seen_before_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bad_words, "MAX_CACHED_IDS", 2 * (10 + 64 + 8) + 5)
    known = vocabulary([bytes([letter]) + bytes([each]) for letter in b"abcd" for each in range(10, 20)])
    first, second = known.word(b"a"), known.word(b"b")
    assert known.word(b"a") is first
    known.word(b"c")  # the third is one too many: "b" was used the longest ago
    assert known.word(b"a") is first
    assert known.word(b"b") is not second


def test_a_vocabulary_of_262_144_tokens_is_ready_in_under_a_second_and_its_words_in_milliseconds() -> None:
    rng = random.Random(3)
    tokens = [rng.randbytes(rng.randrange(1, 14)) for _ in range(262_144)]
    started = time.process_time()
    known = vocabulary(tokens)
    ready = time.process_time() - started
    state = BadWords([f"word {each}" for each in range(64)], known)
    words = time.process_time() - started - ready
    scores_V = torch.zeros(len(tokens))
    state.take(tokens.index(b"w") if b"w" in tokens else 0)
    state.forbid(scores_V)
    started = time.process_time()
    for token_id in range(200):
        state.take(token_id)
        state.forbid(scores_V)
    step = (time.process_time() - started) / 200
    assert ready < 2.0  # it takes a quarter of that on an idle machine
    assert words < 1.0
    assert step < 2e-3


def test_a_long_word_of_one_letter_costs_no_more_than_its_length() -> None:
    tokens = [b"a" * each for each in range(1, 20)]
    state = BadWords(["a" * 1000], vocabulary(tokens))
    started = time.process_time()
    for count in range(999):
        want = {each for each in range(19) if count + each + 1 >= 1000}
        assert banned(state, 19) == want
        state.take(0)
    assert time.process_time() - started < 2.0
