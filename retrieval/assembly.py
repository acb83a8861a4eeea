"""What a prompt shows of what was found: which text, and in which order.

A search decides which chunks are used. If it also decided their order, two questions that find the
same chunks would give two prompts that part at the first chunk, and nothing after it could be
re-used. So ranking is left behind here: equal sets of chunks give equal excerpts in equal order,
and sets that are nearly equal share their longest common opening.

Neighbouring chunks of one document become one excerpt, so that its envelope is paid for once and
the reader sees running text. An excerpt of chunks 3 and 4 begins with the very text of one of chunk
3 alone: nothing in front of the text tells how far it goes, so that both share all of chunk 3.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from retrieval.documents import Chunk, ScoredChunk
from retrieval.ordering import canonical_order

# Questions to the prefix index for one prompt; each costs the encoding of an excerpt or two.
MOST_PROBES = 48

CachedTokens = Callable[[Sequence["Excerpt"]], int]
"""How many leading tokens of a prompt that shows these excerpts, in this order, are cached."""


class Order(StrEnum):
    """The order of excerpts in a prompt."""

    COLLECTION = "collection"
    """By document in order of ingestion, then by place: equal sets, equal bytes, always."""
    RELEVANCE = "relevance"
    """Best first: shares nothing between questions that rank differently."""
    CACHED = "cached"
    """What is cached already first, then the collection's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcerptPart:
    """A chunk's place in an excerpt: characters `at <= i < at + length` of the excerpt's text."""

    chunk: Chunk
    at: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Running text of one document, out of one or more neighbouring chunks.

    Attributes:
        start, end: characters into the document's text, end exclusive.
        text: as the document has it; between chunks there may be other white space than there.
        parts: the chunks in it, in order.
    """

    document_id: str
    document_position: int
    file_id: str
    name: str
    start: int
    end: int
    text: str
    parts: tuple[ExcerptPart, ...]

    @property
    def chunk_ids(self) -> tuple[str, ...]:
        """The chunks in it, in order."""
        return tuple(part.chunk.id for part in self.parts)

    @property
    def page(self) -> int | None:
        """The 1-based page it begins on; None where there are no pages."""
        return self.parts[0].chunk.page

    @property
    def heading_path(self) -> tuple[str, ...]:
        """The headings above its beginning, outermost first."""
        return self.parts[0].chunk.heading_path


def assemble(
    found: Sequence[ScoredChunk],
    *,
    order: Order = Order.COLLECTION,
    shown: Sequence[Excerpt] = (),
    cached_tokens: CachedTokens | None = None,
) -> list[Excerpt]:
    """The excerpts for a prompt; of what is `shown` already, nothing is shown again.

    `cached_tokens` is needed by the order `cached` alone, and asked at most `MOST_PROBES` times;
    without it that order is the collection's.
    """
    known_ids = {chunk_id for excerpt in shown for chunk_id in excerpt.chunk_ids}
    known_texts = {part.chunk.text for excerpt in shown for part in excerpt.parts}
    fresh = [
        scored
        for scored in found
        if scored.chunk.id not in known_ids and scored.chunk.text not in known_texts
    ]
    excerpts = merge(scored.chunk for scored in fresh)
    match order:
        case Order.RELEVANCE:
            return _by_relevance(excerpts, fresh)
        case Order.CACHED if cached_tokens is not None:
            return _by_cache(excerpts, cached_tokens)
        case _:
            return excerpts


def merge(chunks: Iterable[Chunk]) -> list[Excerpt]:
    """The chunks in the collection's order, each text once, neighbours put together."""
    excerpts: list[Excerpt] = []
    for _, group in groupby(canonical_order(chunks), key=_document):
        run: list[Chunk] = []
        for chunk in group:
            if run and not _continues(run, chunk):
                excerpts.append(_excerpt(run))
                run = []
            run.append(chunk)
        excerpts.append(_excerpt(run))
    return excerpts


def _document(chunk: Chunk) -> tuple[int, str]:
    return (chunk.document_position, chunk.document_id)


def _continues(run: Sequence[Chunk], chunk: Chunk) -> bool:
    """Whether a chunk follows a run without any text left out between them."""
    return chunk.position == run[-1].position + 1 or chunk.start < max(c.end for c in run)


def _excerpt(run: Sequence[Chunk]) -> Excerpt:
    first = run[0]
    text, end = first.text, first.end
    parts = [ExcerptPart(chunk=first, at=0, length=len(first.text))]
    for chunk in run[1:]:
        overlap = end - chunk.start
        if overlap > 0:
            # The chunk's text is the document's from its start on: what is there already, is.
            parts.append(ExcerptPart(chunk=chunk, at=len(text) - overlap, length=len(chunk.text)))
            text += chunk.text[overlap:]
        else:
            text += _between(-overlap)
            parts.append(ExcerptPart(chunk=chunk, at=len(text), length=len(chunk.text)))
            text += chunk.text
        end = max(end, chunk.end)
    return Excerpt(
        document_id=first.document_id,
        document_position=first.document_position,
        file_id=first.file_id,
        name=first.name,
        start=first.start,
        end=end,
        text=text,
        parts=tuple(parts),
    )


def _between(characters: int) -> str:
    """White space for a gap between chunks: only its length is known.

    A line end never joins two words or two lines of a table; a longer gap was a paragraph's.
    """
    return "\n" * min(characters, 2)


def _by_relevance(excerpts: Sequence[Excerpt], found: Sequence[ScoredChunk]) -> list[Excerpt]:
    scores = {scored.chunk.id: scored.score for scored in found}
    return sorted(excerpts, key=lambda e: -max(scores[chunk_id] for chunk_id in e.chunk_ids))


def _by_cache(excerpts: Sequence[Excerpt], cached_tokens: CachedTokens) -> list[Excerpt]:
    """Greedy: at each place the excerpt that lengthens the cached opening most.

    Of equals, the first in the collection's order. As soon as nothing lengthens it, no later
    choice can either, and the rest follows in the collection's order.
    """
    chosen: list[Excerpt] = []
    rest = list(excerpts)
    probes, cached = 1, cached_tokens(())
    while len(rest) > 1 and probes + len(rest) <= MOST_PROBES:
        gains = [cached_tokens([*chosen, candidate]) for candidate in rest]
        probes += len(rest)
        best = max(gains)
        if best <= cached:
            break
        cached = best
        chosen.append(rest.pop(gains.index(best)))
    return [*chosen, *rest]
