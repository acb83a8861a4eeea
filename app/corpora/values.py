"""What is told of a corpus: its prefix, its state, its figures."""

from dataclasses import dataclass, field
from enum import StrEnum

from app.prepared import Source
from prompts import PromptDocument


class CorpusState(StrEnum):
    """Where a corpus is in its life.

    building: its prefix is being made. warming: its KV is being computed or loaded. resident: the
    engine holds all of it. stale: the engine held it and does no more, or it changed, and it will
    be warmed again. too_large: it doesn't fit the model's window or the pool. cold: it isn't kept
    in the engine; a request computes it, or loads what the tiers have.
    """

    BUILDING = "building"
    WARMING = "warming"
    RESIDENT = "resident"
    STALE = "stale"
    TOO_LARGE = "too_large"
    COLD = "cold"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusPrefix:
    """A collection as the opening of every prompt in CAG mode.

    Attributes:
        address: names its content, template, model and tokenizer; equal addresses, equal ids.
        documents: in the order of ingestion.
        sources: its passages, for citations.
        pad: stands behind the last document, so that the prefix ends where a chunk or page does.
        tokens: of the prefix, whole chunks or pages; None where only the engine can count them.
        document_tokens: of the prefix before the pad.
        token_ids: the ids, unsigned 32-bit in the machine's byte order; empty where unknown.
        document_ids: in the same order as `documents`.
    """

    address: str
    documents: tuple[PromptDocument, ...]
    sources: tuple[Source, ...]
    pad: str
    tokens: int | None
    document_tokens: int | None = None
    token_ids: bytes = field(default=b"", repr=False)
    document_ids: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatus:
    """A collection's corpus now.

    Attributes:
        address: of the prefix that requests get now; None while it was never made.
        tokens: of the whole prefix, by the served model's tokenizer; None where not counted.
        document_tokens: those of them before the pad.
        resident_tokens: leading tokens that the engine holds; None where that isn't known.
        tiered_tokens: leading tokens that were given to the tiers; None where there are none.
        window_tokens, pool_tokens: the engine's; None while there is none.
        revision: of the collection that the prefix was made of.
        progress: 0 to 1 while it is warming.
        verified_at: when an answer of the engine or its events last showed it resident; seconds
            since the epoch, UTC.
        warm_s: how long the last warming took.
        warm_loaded_tokens: how many of its tokens came from the tiers.
        wanted: somebody asked for it to be warmed, and that has not ended.
        problem: why it isn't as it should be, in one sentence.
    """

    collection_id: str
    state: CorpusState
    address: str | None = None
    tokens: int | None = None
    document_tokens: int | None = None
    resident_tokens: int | None = None
    tiered_tokens: int | None = None
    window_tokens: int | None = None
    pool_tokens: int | None = None
    revision: int | None = None
    progress: float | None = None
    verified_at: float | None = None
    warm_s: float | None = None
    warm_loaded_tokens: int | None = None
    wanted: bool = False
    problem: str | None = None

    @property
    def resident(self) -> bool:
        """Whether the engine holds all of it."""
        return self.state is CorpusState.RESIDENT
