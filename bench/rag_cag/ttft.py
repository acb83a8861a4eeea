"""The time to the first token by mode, beside what the policy predicted for it.

Each round asks once in every arm, each round beginning with another of the three kinds:

- `rag`: passages are found and computed;
- `cag warm`: the engine holds the corpus;
- `cag cold`: a corpus of the same size that nobody ever asked; then `cag from RAM` and
  `cag from SSD`: the same corpus once more, after the engine was emptied, and its RAM too.

Rounds at the beginning, and some questions before them, are only for the policy to learn from.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bench.rag_cag.client import Asked, Gateway
from bench.rag_cag.stacks import Stack
from bench.rag_cag.texts import Texts

# The gateway's look at what RAM holds comes every 5 s, a flush' event at once.
_LOOK_S, _EVENT_S = 6.0, 0.1

Measured = Iterator[tuple[str, Asked]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TtftOptions:
    """How often, and how large.

    Attributes:
        first_questions: asked by retrieval before all rounds.
        learning_rounds: before those that count.
    """

    rounds: int = 9
    learning_rounds: int = 4
    first_questions: int = 16
    documents: int = 12
    characters: int = 1_400


def measure(stack: Stack, options: TtftOptions) -> Iterator[dict[str, Any]]:
    """A record for each question; those of learning rounds have a `round` below 0.

    Raises:
        GatewayAnswerError: the gateway refuses.
    """
    gateway = Gateway(stack.url)
    try:
        yield from _Ttft(stack, gateway, options).records()
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

    def records(self) -> Iterator[dict[str, Any]]:
        for _ in range(self._options.first_questions):
            self._ask(self._store, "rag")
        kinds: list[Callable[[], Measured]] = [self._rag, self._warm, self._others]
        for number in range(-self._options.learning_rounds, self._options.rounds):
            turn = number % len(kinds)
            for kind in (*kinds[turn:], *kinds[:turn]):
                for arm, asked in kind():
                    more = {"computed_tokens": asked.computed_tokens}
                    more["loaded_tokens"] = asked.loaded_tokens
                    yield {"round": number, "arm": arm, **asdict(asked), **more}

    def _rag(self) -> Measured:
        self._gateway.wait_until_calm()
        yield "rag", self._ask(self._store, "rag")

    def _warm(self) -> Measured:
        self._gateway.warm(self._store)
        self._gateway.wait_until_calm()
        yield "cag warm", self._ask(self._store, "cag")

    def _others(self) -> Measured:
        name = f"another {self._asked}"
        store = self._gateway.add_collection(name, self._of(name).all())
        self._gateway.corpus(store)  # so that counting its tokens is no part of the answer
        self._gateway.wait_until_calm()
        yield "cag cold", self._ask(store, "cag")
        if self._stack.tier_url is not None:
            self._empty_engine()
            yield "cag from RAM", self._ask(store, "cag")
            self._stack.clear_ram()
            time.sleep(_LOOK_S)
            self._empty_engine()
            yield "cag from SSD", self._ask(store, "cag")
        self._gateway.remove_collection(store)

    def _empty_engine(self) -> None:
        self._gateway.wait_until_calm()
        self._stack.let_stores_end()
        self._stack.flush_engine()
        time.sleep(_EVENT_S)

    def _ask(self, store: str, mode: str) -> Asked:
        self._asked += 1
        return self._gateway.ask(store, self._texts.question(self._asked), mode=mode)

    def _of(self, seed: str) -> Texts:
        size = self._options
        return Texts(seed=seed, documents=size.documents, characters=size.characters)
