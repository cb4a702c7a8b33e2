"""The block pool under random use, against a plain model of it."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from infer.kv.blocks import NULL_BLOCK, BlockPool


class PoolMachine(RuleBasedStateMachine):
    """`owned` are lists of blocks, as sequences hold them; `held` says what each published block holds."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(9)
        self.owned: list[list[int]] = []
        self.contents: dict[int, int] = {}
        self.known: dict[int, int] = {}
        self.released: list[int] = []

    @rule(count=st.integers(0, 4))
    def take(self, count: int) -> None:
        if count > self.pool.num_free:
            return
        oldest = [block for block in self.released if block in self.known.values()]
        num_plain = self.pool.num_free - self.pool.num_cached
        taken = self.pool.take(count)
        evicted = [block for block in taken if block in oldest]
        assert NULL_BLOCK not in taken
        assert evicted == oldest[: max(0, count - num_plain)], "the block released longest ago goes first"
        self.known = {key: block for key, block in self.known.items() if block not in taken}
        self.released = [block for block in self.released if block not in taken]
        self.owned.append(taken)

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        blocks = self.owned.pop(data.draw(st.integers(0, len(self.owned) - 1)))
        self.pool.release([NULL_BLOCK, *blocks])
        users = Counter(block for each in self.owned for block in each)
        for block in blocks:
            if not users[block]:
                self.released = [each for each in self.released if each != block] + [block]

    @precondition(lambda self: any(self.owned))
    @rule(data=st.data(), key=st.integers(0, 12))
    def publish(self, data: st.DataObject, key: int) -> None:
        block = data.draw(st.sampled_from([block for each in self.owned for block in each]))
        is_new = key not in self.known and block not in self.known.values()
        self.pool.publish(block, key)
        if is_new:
            self.known[key] = block

    @rule(key=st.integers(0, 12))
    def find_and_share(self, key: int) -> None:
        found = self.pool.find(key)
        assert found == self.known.get(key)
        if found is not None:
            self.pool.share([found])
            self.owned.append([found])
            self.released = [block for block in self.released if block != found]

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.known)))
        self.pool.forget([self.known.pop(key)])

    @rule()
    def forget_all(self) -> None:
        self.pool.forget_all()
        self.known = {}

    @invariant()
    def the_books_agree(self) -> None:
        live = Counter(block for each in self.owned for block in each)
        self.pool.check(dict(live))
        assert self.pool.num_cached == len([block for block in self.known.values() if not live[block]])
        assert self.pool.num_free == self.pool.num_usable - len(live)


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestPool = PoolMachine.TestCase
