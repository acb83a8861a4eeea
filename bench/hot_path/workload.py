"""What is asked: a long opening that all share, and at most 200 bytes that nobody has seen.

The order of texts follows from the seed, so that two gateways are asked the very same. Pure.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import orjson

from bench.micro.words import sentences

_BODY_BYTES = 4096
_FRESH_CHARACTERS = 150
_CHUNKS = 50
_SHORT_ANSWER = 16


class Shape(StrEnum):
    """One kind of request."""

    JSON = "json"
    """A first turn, answered as a whole."""
    FOLLOW_UP = "follow-up"
    """A second turn: what was said in the first one is sent again, and more asked."""
    STREAM = "stream"
    """A first turn, answered in fifty chunks."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A body to send; where `then` is there, the answer's text goes into a follow-up with it."""

    body: Mapping[str, object]
    then: str | None = None

    @property
    def raw(self) -> bytes:
        """As JSON."""
        return orjson.dumps(self.body)

    def follow_up(self, answer: str) -> "Ask":
        """The second turn of the conversation that this ask began."""
        assert self.then is not None
        messages = self.body["messages"]
        assert isinstance(messages, list)
        said = {"role": "assistant", "content": answer}
        more = {"role": "user", "content": self.then}
        return Ask({**self.body, "messages": [*messages, said, more]})


class Workload:
    """An endless supply of requests of one shape."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self._source = random.Random(f"{shape}/{seed}")
        self._instructions = sentences(random.Random(7), _BODY_BYTES - 400)

    def next(self) -> Ask:
        """The next request; a follow-up's first turn where that is the shape."""
        streams = self.shape is Shape.STREAM
        body = {
            "model": "default",
            "messages": [
                {"role": "system", "content": self._instructions},
                {"role": "user", "content": self._fresh()},
            ],
            "max_tokens": _CHUNKS if streams else _SHORT_ANSWER,
            "stream": streams,
            "temperature": 0.0,
        }
        return Ask(body, then=self._fresh() if self.shape is Shape.FOLLOW_UP else None)

    def _fresh(self) -> str:
        return f"{self._source.getrandbits(64):x} " + sentences(self._source, _FRESH_CHARACTERS)
