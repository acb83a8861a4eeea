"""What a corpus takes that is kept in the KV pool for cache-augmented generation.

Only its own figures: whether that beats retrieval is another question.
"""

from dataclasses import dataclass

from cache.kv_plan.pools import Pool, PoolShape
from cache.pages import page_floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A prompt prefix of `tokens` that stays in the pool.

    Attributes:
        held_tokens: in whole pages: a page that is not full is computed again each time.
        bytes: on one GPU; an upper bound where layers slide.
        share_of_pool: above 1 it doesn't fit; None where the pool isn't known.
        left_tokens: of the context window, for question and answer; below 1 it doesn't fit.
    """

    tokens: int
    held_tokens: int
    bytes: int
    share_of_pool: float | None
    left_tokens: int

    @property
    def fits_window(self) -> bool:
        """Whether at least one token is left for question and answer each."""
        return self.left_tokens >= 2

    @property
    def fits_pool(self) -> bool | None:
        """Whether the pool holds it; None where the pool isn't known."""
        return None if self.share_of_pool is None else self.share_of_pool <= 1


def corpus_of(
    tokens: int | None, *, shape: PoolShape, pool: Pool | None, context_tokens: int
) -> Corpus | None:
    """The corpus' figures; None where none was asked for."""
    if tokens is None:
        return None
    held = page_floor(tokens, page_size=shape.page_tokens)
    share = None
    if pool is not None:
        share = held / pool.tokens if pool.tokens else float("inf")
    return Corpus(
        tokens=tokens,
        held_tokens=held,
        bytes=held * (shape.full + shape.sliding) + shape.slot,
        share_of_pool=share,
        left_tokens=context_tokens - tokens,
    )
