"""What a corpus' KV counts in the engine when memory is short. Pure.

SGLang has no pin. Under `--radix-eviction-policy priority` the KV of the lowest `priority` goes
first, then the least recently used; KV keeps the highest priority that it was ever asked for with,
and nothing takes that back. A prompt whose answer fills a page counts one more than its request
(srt/mem_cache/unified_radix_cache.py of 0.5.23 puts it in again, above its answer). So requests
have a base, one above it stand their prompts, and corpora two and more. When too
much KV stands there that no corpus wants any more, the base is lifted above all of it.

Priority is also the order of the engine's queue, and who is ahead by more than
`--priority-scheduling-preemption-threshold` (10) pushes running requests out where memory is short:
corpora never are, not even those of a lifted base over requests that were sent before.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

_ABOVE = 2
_MOST_ABOVE = 4
_LIFT = 5
# Requests that were sent before a lift have ended by the next one.
_LIFT_EVERY_S = 60.0
# Beyond this share of the pool, KV that stands too high for what it is worth is let go.
_MOST_LEFT_OVER = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The base, and the tokens above it that nobody wants; `lifted_at` is when it was lifted.

    It begins at the seconds since 1970 and grows more slowly than they do, so that of a gateway
    that is started later is higher and needn't be written down.
    """

    base: int
    left_over_tokens: int = 0
    lifted_at: float | None = None

    def of_corpus(self, priority: int) -> int:
        """The priority of a corpus' requests, by that of its collection."""
        return self.base + max(_ABOVE, min(_ABOVE + priority, _MOST_ABOVE))

    def left(self, tokens: int, *, pool_tokens: int | None, at: float) -> "Standing":
        """After a corpus' tokens are wanted no more, at a time in seconds since 1970."""
        total = self.left_over_tokens + tokens
        few = pool_tokens is not None and total <= _MOST_LEFT_OVER * pool_tokens
        soon = self.lifted_at is not None and at - self.lifted_at < _LIFT_EVERY_S
        if total == 0 or few or soon:
            return replace(self, left_over_tokens=total)
        return Standing(base=self.base + _LIFT, lifted_at=at)

    def emptied(self) -> "Standing":
        """The engine's memory was emptied, what was left over with it."""
        return replace(self, left_over_tokens=0)


def first_standing() -> Standing:
    """That of a gateway that starts now."""
    return Standing(base=int(time.time()))


def knows_priorities(settings: Mapping[str, object]) -> bool:
    """Whether an engine takes a request's priority.

    Args:
        settings: the engine's `/server_info`.
    """
    return bool(settings.get("enable_priority_scheduling"))


def keeps_by_priority(settings: Mapping[str, object]) -> bool:
    """Whether an engine's memory goes by priority too."""
    policy = settings.get("radix_eviction_policy")
    return knows_priorities(settings) and policy == "priority"
