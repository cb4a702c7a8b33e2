from __future__ import annotations

import asyncio
import threading

import pytest

from infer.service.vocabulary import VocabularySender, vocabulary_bytes
from infer_api.errors import EngineDeadError


class Counting:
    """A tokenizer that counts how often it was asked, and on which threads."""

    def __init__(self, inner) -> None:
        self.inner, self.threads, self.num_asked = inner, set(), 0

    def special_ids(self):
        return self.inner.special_ids()

    def token_bytes(self, token_id: int) -> bytes:
        self.num_asked += 1
        self.threads.add(threading.current_thread())
        return self.inner.token_bytes(token_id)


def test_special_tokens_and_gaps_have_no_bytes(byte_tokenizer) -> None:
    tokens = vocabulary_bytes(byte_tokenizer, byte_tokenizer.vocab_size + 2)
    assert tokens[:2] == [b"", b""]
    assert tokens[-2:] == [b"", b""]
    assert tokens[byte_tokenizer.encode("a")[0]] == b"a"


async def test_many_first_callers_share_one_sending_off_the_event_loop(byte_tokenizer, scripted_engine) -> None:
    engine, tokenizer = scripted_engine(), Counting(byte_tokenizer)
    sender = VocabularySender(engine, tokenizer, byte_tokenizer.vocab_size)
    await asyncio.gather(*(sender.send() for _ in range(5)))
    await sender.send()
    assert engine.controls == [
        ("set_vocabulary", {"tokens": vocabulary_bytes(byte_tokenizer, byte_tokenizer.vocab_size)})
    ]
    assert tokenizer.num_asked == byte_tokenizer.vocab_size - 2
    assert threading.main_thread() not in tokenizer.threads


async def test_one_who_leaves_does_not_end_it_for_the_others(byte_tokenizer, scripted_engine) -> None:
    engine = scripted_engine()
    sender = VocabularySender(engine, byte_tokenizer, 10)
    first, second = (asyncio.ensure_future(sender.send()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert len(engine.controls) == 1


async def test_after_a_failure_the_next_caller_tries_again(byte_tokenizer, scripted_engine) -> None:
    engine = scripted_engine()
    sender = VocabularySender(engine, byte_tokenizer, 10)
    control, engine.control = engine.control, None

    async def dead(name, **args):
        raise EngineDeadError("gone")

    engine.control = dead
    with pytest.raises(EngineDeadError):
        await sender.send()
    engine.control = control
    await sender.send()
    assert len(engine.controls) == 1
