"""One request inside the simulated engine, and what it tells of itself at the end. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum

from bench.engine_sim.changes import Namespace
from bench.engine_sim.language import Speaker
from bench.engine_sim.radix import Node
from bench.engine_sim.tokens import TextStream


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """Prompt tokens that were not computed, by where they came from.

    `device` and `storage` add up to `tokens`; `storage` is None where there is no tier.
    """

    device: int = 0
    storage: int | None = None

    @property
    def tokens(self) -> int:
        return self.device + (self.storage or 0)

    def by_source(self) -> dict[str, int]:
        """Tokens by the words of SGLang; a tier behind the engine counts as storage."""
        known = {"device": self.device, "host": 0}
        return known if self.storage is None else known | {"storage": self.storage}


@dataclass(slots=True, eq=False, kw_only=True)
class EngineRequest:
    """A request from its arrival to its last token.

    Attributes:
        max_new_tokens: already cut to what the window and the pool allow.
        stop_ids: tokens that end the answer and are not said.
        ready_at_s: simulated time before which it may not start (the tier is still loading).
        held_tokens: of the pool, outside the tree.
    """

    rid: str
    prompt: tuple[int, ...]
    namespace: Namespace
    max_new_tokens: int
    speaker: Speaker
    text: TextStream
    stop_ids: frozenset[int] = frozenset()
    may_end_itself: bool = True
    priority: int | None = None
    output: list[int] = field(default_factory=list)
    cached: Cached = field(default_factory=Cached)
    storage_tokens: int | None = None
    ready_at_s: float = 0.0
    uncached_left: int = 0
    held_tokens: int = 0
    node: Node | None = None
    finish: FinishReason | None = None

    @property
    def computed(self) -> tuple[int, ...]:
        """Tokens whose KV exists: all but the newest, which no forward pass has read.

        Source: sglang 0.5.23, seen in its KV events: prompt + output - 1 tokens are stored.
        """
        whole = self.prompt + tuple(self.output)
        return whole[:-1] if self.output else whole

    @property
    def matched_stop(self) -> int | str | None:
        """The stop string or token that ended the answer."""
        if self.finish is not FinishReason.STOP:
            return None
        return self.text.matched if self.text.matched is not None else self.output[-1]

    def say(self) -> None:
        """Add the next token; sets `finish` when it is the last, or when none is wanted."""
        if self.max_new_tokens == 0:
            self.finish = FinishReason.LENGTH
            return
        token = self.speaker.next(may_stop=self.may_end_itself)
        self.output.append(token)
        if token not in self.stop_ids:
            self.text.push(token)
        if token in self.stop_ids or self.text.matched is not None:
            self.finish = FinishReason.STOP
        elif len(self.output) >= self.max_new_tokens:
            self.finish = FinishReason.LENGTH
        if self.finish is not None:
            self.text.end()
