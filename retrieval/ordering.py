"""The order in which retrieved chunks enter a prompt, apart from how well they match.

A search decides which chunks are used. If it also decided their order, two questions that find the
same chunks would give two prompts that part at the first chunk, and nothing after it could be
re-used. So the order is the collection's own: by document, in order of ingestion, then by place in
the document. New documents come last, so what was before them stays where it was.
"""

from collections.abc import Iterable

from retrieval.documents import Chunk, ScoredChunk


def canonical_order(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The chunks in the collection's order, each text once.

    Equal sets give equal lists, whatever order or repetition they come in. Of chunks with equal
    text, the first in the collection's order stays.
    """
    ordered = sorted(chunks, key=_place)
    first_by_text: dict[str, Chunk] = {}
    for chunk in ordered:
        first_by_text.setdefault(chunk.text, chunk)
    return list(first_by_text.values())


def for_prompt(found: Iterable[ScoredChunk]) -> list[Chunk]:
    """What a search found, in the order for a prompt; scores are left behind."""
    return canonical_order(scored.chunk for scored in found)


def _place(chunk: Chunk) -> tuple[int, int, str]:
    # The id only matters for chunks of several collections, which can share a place.
    return (chunk.document_position, chunk.position, chunk.id)
