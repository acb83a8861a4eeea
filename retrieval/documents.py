"""The plain values of retrieval: documents, their blocks and chunks, and ids made from content.

Equal bytes give equal ids in any process, so a document that is uploaded twice is one document
and a chunk keeps its id when a collection is built anew.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# 96 bits: short enough to read, and 10^9 documents collide with a probability below 1e-11.
_DIGEST_BYTES = 12


def content_id(prefix: str, parts: Iterable[str | bytes]) -> str:
    """`prefix` and a hex digest of the parts, e.g. `doc-5f0c…`.

    Each part is hashed with its length before it, so that moving a byte from one part to the
    next gives another id.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return f"{prefix}-{digest.hexdigest()}"


class BlockKind(StrEnum):
    """What a block is in its document's structure."""

    HEADING = "heading"
    BODY = "body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A run of a document's text that structure sets apart: a heading, a paragraph, a list item.

    Attributes:
        start, end: characters into the document's text, end exclusive.
        level: 1 to 6 for a heading, 0 otherwise.
        title: a heading's words without markup, on one line; empty otherwise.
        page: 1-based page of its first character; None where the format has no pages.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """A file's text and structure.

    Attributes:
        id: digest of the media type and the file's bytes; the name is not part of it.
        text: NFC, LF newlines, no control characters but newline and tab.
        blocks: in order, disjoint; what they leave out is white space.
    """

    id: str
    name: str
    media_type: str
    text: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of a collection.

    Attributes:
        position: 0-based rank by ingestion into the collection; never reassigned while the
            document stays.
        file_id: the file it came from (the first of several with the same bytes).
    """

    id: str
    position: int
    file_id: str
    name: str
    media_type: str
    text: str
    token_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A chunk before it belongs to a collection: what the chunker makes of a document.

    Attributes:
        id: digest of the document's id, the span and the text.
        position: 0-based rank in the document.
        start, end: characters into the document's text; `text` is exactly that slice.
        page: 1-based page of its first character, None where there are no pages.
        heading_path: the headings above it, outermost first.
    """

    id: str
    position: int
    start: int
    end: int
    text: str
    token_count: int
    page: int | None
    heading_path: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Passage):
    """A passage of a document in a collection, with all that a citation needs."""

    document_id: str
    document_position: int
    file_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredChunk:
    """A chunk found by a search.

    Attributes:
        score: cosine of the angle between query and chunk, -1 to 1; higher is nearer.
    """

    chunk: Chunk
    score: float
