"""The time to the first token by mode, beside what the policy predicted for it.

Each round asks once in every arm, each round beginning with another arm:

- `rag`: passages are found and computed;
- `cag warm`: the engine holds the corpus;
- `cag cold`: a corpus of the same size that nobody ever asked;
- `cag from RAM`, `cag from SSD`: the engine was emptied, the tiers have it.

Rounds at the beginning are only for the policy to learn from.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bench.rag_cag.client import Asked, Gateway
from bench.rag_cag.stacks import Stack
from bench.rag_cag.texts import Texts

# The gateway's look at what RAM holds comes every 5 s, a flush' event at once.
_LOOK_S, _EVENT_S = 6.0, 0.1

ARMS = ("rag", "cag warm", "cag cold", "cag from RAM", "cag from SSD")


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftOptions:
    """How often, and how large: characters are about 4.5 to a token."""

    rounds: int = 7
    learning_rounds: int = 3
    documents: int = 12
    characters: int = 1_400


def measure(stack: Stack, options: TtftOptions) -> Iterator[dict[str, Any]]:
    """A record for each question of the measured rounds, and of the learning ones (`round` < 0)."""
    gateway = Gateway(stack.url)
    try:
        yield from _Ttft(stack, gateway, options).rounds()
    finally:
        gateway.close()


class _Ttft:
    def __init__(self, stack: Stack, gateway: Gateway, options: TtftOptions) -> None:
        self._stack = stack
        self._gateway = gateway
        self._options = options
        self._texts = self._of("static")
        self._store = gateway.add_collection("static", self._texts.all())
        self._asked = 0

    def rounds(self) -> Iterator[dict[str, Any]]:
        arms: Mapping[str, Callable[[], Asked]] = {
            "rag": self._rag,
            "cag warm": self._warm,
            "cag cold": self._cold,
            "cag from RAM": self._from_ram,
            "cag from SSD": self._from_ssd,
        }
        names = [name for name in ARMS if self._stack.tier_url or "from" not in name]
        for number in range(-self._options.learning_rounds, self._options.rounds):
            turn = number % len(names)
            for arm in (*names[turn:], *names[:turn]):
                asked = arms[arm]()
                yield {
                    "round": number,
                    "arm": arm,
                    **asdict(asked),
                    "computed_tokens": asked.computed_tokens,
                    "loaded_tokens": asked.loaded_tokens,
                }

    def _rag(self) -> Asked:
        self._gateway.wait_until_calm()
        return self._ask(self._store, "rag")

    def _warm(self) -> Asked:
        self._make_warm()
        return self._ask(self._store, "cag")

    def _cold(self) -> Asked:
        name = f"cold {self._asked}"
        store = self._gateway.add_collection(name, self._of(name).all())
        self._gateway.corpus(store)  # so that counting its tokens is no part of the answer
        self._gateway.wait_until_calm()
        try:
            return self._ask(store, "cag")
        finally:
            self._gateway.wait_until_calm()
            self._gateway.remove_collection(store)

    def _from_ram(self) -> Asked:
        self._make_warm()
        self._stack.let_stores_end()
        self._stack.flush_engine()
        time.sleep(_EVENT_S)
        return self._ask(self._store, "cag")

    def _from_ssd(self) -> Asked:
        self._make_warm()
        self._stack.let_stores_end()
        self._stack.clear_ram()
        time.sleep(_LOOK_S)
        self._stack.flush_engine()
        time.sleep(_EVENT_S)
        return self._ask(self._store, "cag")

    def _make_warm(self) -> None:
        self._gateway.warm(self._store)
        self._gateway.wait_until_calm()

    def _ask(self, store: str, mode: str) -> Asked:
        self._asked += 1
        return self._gateway.ask(store, self._texts.question(self._asked), mode=mode)

    def _of(self, seed: str) -> Texts:
        size = self._options
        return Texts(seed=seed, documents=size.documents, characters=size.characters)
