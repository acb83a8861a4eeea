"""The prefix index does what its obvious twin does, whatever happens in whatever order."""

import hashlib
from dataclasses import dataclass, replace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cache.kv_events import BlockRemoved, BlockStored
from cache.naive_index import NaiveIndex
from cache.page_keys import PageKeys
from cache.prefix_index import PrefixIndex
from tests.cache.prefix_tree_checks import check_tree

PAGE_TOKENS = 2
SALTS = ["a", "b", "c"]
REPLICAS = ["r", "s"]

# Few different pages and short prompts, so that prompts share, part, and end within runs. No more
# pages than an index remembers times for one run: older times are blurred on purpose.
prompts = st.lists(st.integers(0, 2), max_size=8)
salts = st.sampled_from(SALTS)
replicas = st.sampled_from(REPLICAS)
tiers = st.sampled_from(["", *REPLICAS])  # shared by all, or a replica's own
delays = st.integers(0, 2)


class Twins(RuleBasedStateMachine):
    """Everything is told to both; then they must answer alike."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.index = PrefixIndex(page_tokens=PAGE_TOKENS, key=b"k")
        self.naive = NaiveIndex(page_tokens=PAGE_TOKENS, key=b"k")
        self.names: list[int] = []
        self.events: list[_Stored] = []

    @initialize()
    def begin(self) -> None:
        self.both(lambda index: index.match(PageKeys(), salt="a", sent_at=0.0))

    def both(self, call: object) -> None:
        assert callable(call)
        self.now += 1
        assert call(self.index) == call(self.naive)

    @rule(prompt=prompts, salt=salts, replica=replicas, delay=delays)
    def computed(self, prompt: list[int], salt: str, replica: str, delay: int) -> None:
        keys = keys_of(self.naive, prompt)
        at = self.now - delay
        self.both(lambda index: index.computed(keys, salt=salt, replica=replica, at=at))

    @rule(prompt=prompts, salt=salts, replica=replicas)
    def sent(self, prompt: list[int], salt: str, replica: str) -> None:
        keys = keys_of(self.naive, prompt)
        self.both(lambda index: index.sent(keys, salt=salt, replica=replica, at=self.now))

    @rule(prompt=prompts, salt=salts, replica=replicas)
    def gave_up(self, prompt: list[int], salt: str, replica: str) -> None:
        keys = keys_of(self.naive, prompt)
        self.both(lambda index: index.gave_up(keys, salt=salt, replica=replica))

    @rule(prompt=prompts, salt=salts, tier=tiers)
    def tiered(self, prompt: list[int], salt: str, tier: str) -> None:
        keys = keys_of(self.naive, prompt)
        self.both(lambda index: index.tiered(keys, salt=salt, at=self.now, tier=tier))

    @rule(tier=tiers)
    def tiers_cleared(self, tier: str) -> None:
        self.both(lambda index: index.tiers_cleared(tier))

    @rule(
        prompt=prompts,
        salt=st.sampled_from([*SALTS, None]),
        replica=replicas,
        seed=st.sampled_from(["", "", "other"]),
    )
    def stored(self, prompt: list[int], salt: str | None, replica: str, seed: str) -> None:
        self.store(_Stored(prompt, salt, replica, seed), 0)

    @rule(data=st.data(), end=st.lists(st.integers(0, 2), min_size=1, max_size=4))
    def stored_after(self, data: st.DataObject, end: list[int]) -> None:
        if not self.events:
            return
        before = data.draw(st.sampled_from(self.events[-8:]))
        after = data.draw(st.integers(0, len(before.prompt)))
        self.store(replace(before, prompt=[*before.prompt[:after], *end][:8]), after)

    @rule(prompt=prompts, after=st.integers(1, 8), salt=salts, replica=replicas)
    def stored_after_an_unknown_page(
        self, prompt: list[int], after: int, salt: str, replica: str
    ) -> None:
        self.store(_Stored(prompt, salt, replica, "never seen"), min(after, len(prompt)))

    def store(self, stored: "_Stored", after: int) -> None:
        names = stored.hashes()
        event = BlockStored(
            block_hashes=names[after:],
            parent_block_hash=names[after - 1] if after else None,
            token_ids=token_ids(stored.prompt[after:]),
            block_size=PAGE_TOKENS,
            cache_salt=stored.salt,
        )
        if stored.seed != "never seen":
            self.events.append(stored)
            self.names += names
        self.both(lambda index: index.stored(stored.replica, event, at=self.now))

    @rule(replica=replicas, data=st.data())
    def removed(self, replica: str, data: st.DataObject) -> None:
        names = data.draw(st.lists(st.sampled_from([*self.names[-40:], 7]), max_size=5))
        self.both(lambda index: index.removed(replica, _removed(names), at=self.now))

    @rule(data=st.data(), cut=st.integers(0, 8))
    def removed_end(self, data: st.DataObject, cut: int) -> None:
        if self.events:
            stored = data.draw(st.sampled_from(self.events[-8:]))
            names = stored.hashes()[cut:]
            self.both(lambda index: index.removed(stored.replica, _removed(names), at=self.now))

    @rule(replica=replicas)
    def cleared(self, replica: str) -> None:
        self.both(lambda index: index.cleared(replica, at=self.now))

    @rule(replica=replicas)
    def evidence_lost(self, replica: str) -> None:
        self.both(lambda index: index.evidence_lost(replica, at=self.now))

    @rule(replica=replicas)
    def restarted(self, replica: str) -> None:
        self.both(lambda index: index.restarted(replica, at=self.now))

    @rule(replica=replicas)
    def forget_replica(self, replica: str) -> None:
        self.both(lambda index: index.forget_replica(replica))

    @rule(salt=salts)
    def forget_salt(self, salt: str) -> None:
        self.both(lambda index: index.forget_salt(salt))

    @rule(prompt=prompts, salt=salts, ago=st.integers(0, 3))
    def match(self, prompt: list[int], salt: str, ago: int) -> None:
        keys, at = keys_of(self.naive, prompt), self.now - ago
        self.both(lambda index: index.match(keys, salt=salt, sent_at=at))

    @invariant()
    def the_tree_is_sound(self) -> None:
        check_tree(self.index._tree)
        assert self.index.pages == self.naive.pages

    def teardown(self) -> None:
        for salt in SALTS:
            for last in range(3):
                keys = keys_of(self.naive, [0, 1, last, 0])
                self.both(lambda index, k=keys, s=salt: index.match(k, salt=s, sent_at=self.now))


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def keys_of(index: NaiveIndex | PrefixIndex, prompt: list[int]) -> PageKeys:
    return index.keys(token_ids(prompt))


def token_ids(prompt: list[int]) -> list[int]:
    return [token for page in prompt for token in (page, page + 10)]


@dataclass(frozen=True)
class _Stored:
    """Pages that an event announced."""

    prompt: list[int]
    salt: str | None
    replica: str
    seed: str

    def hashes(self) -> list[int]:
        """Chained 64-bit names, as an engine gives them; engines may differ in them."""
        names: list[int] = []
        for pages in range(1, len(self.prompt) + 1):
            digest = hashlib.sha256(f"{self.seed} {self.salt} {self.prompt[:pages]}".encode())
            names.append(int.from_bytes(digest.digest()[:8], "big", signed=True))
        return names


def _removed(names: list[int]) -> BlockRemoved:
    return BlockRemoved(block_hashes=names, medium="GPU")
