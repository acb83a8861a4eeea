"""The plain values of retrieval: documents, their blocks and chunks, and ids made from content.

Equal bytes give equal ids in any process, so a document that is uploaded twice is one document
and a chunk keeps its id when a collection is built anew.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

# What a file's attribute may be; numbers are floats, as in OpenAI's vector stores.
AttributeValue = str | float | bool

# 96 bits: short enough to read, and 10^9 documents collide with a probability below 1e-11.
_DIGEST_BYTES = 12


class LongPart(NamedTuple):
    """Bytes that nobody holds all at once."""

    size_bytes: int
    pieces: Iterable[bytes]


def content_id(prefix: str, parts: Iterable[str | bytes | LongPart]) -> str:
    """`prefix` and a hex digest of the parts, e.g. `doc-5f0c…`.

    Each part is hashed with its length before it, so that moving a byte from one part to the
    next gives another id.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        if isinstance(part, LongPart):
            size_bytes, pieces = part
        else:
            data = part.encode() if isinstance(part, str) else part
            size_bytes, pieces = len(data), (data,)
        digest.update(size_bytes.to_bytes(8, "big"))
        for piece in pieces:
            digest.update(piece)
    return f"{prefix}-{digest.hexdigest()}"


class BlockKind(StrEnum):
    """What a block is in its document's structure."""

    HEADING = "heading"
    BODY = "body"
    LINES = "lines"  # a table, code, records: its lines mean more than its sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A run of a document's text that structure sets apart: a heading, a paragraph, a list item.

    Attributes:
        start, end: characters into the document's text, end exclusive.
        level: 1 to 6 for a heading, 0 otherwise.
        title: a heading's words without markup, on one line. Of a block of lines: what its later
            parts can't be understood without, a table's first row. Empty otherwise.
        page: 1-based page of its first character; None where the format has no pages.
        path: what it stands under, outermost first, where that is no heading of the text: the
            qualified name of a definition, the place of a record. None: the headings before it.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""
    page: int | None = None
    path: tuple[str, ...] | None = None


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
        attributes, access: of that file.
    """

    id: str
    position: int
    file_id: str
    name: str
    media_type: str
    text: str
    token_count: int
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict, hash=False)
    access: tuple[str, ...] = ()


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
    """A passage of a document in a collection, with all that a citation needs.

    Attributes:
        file_id, name, attributes, access: of the file that it is cited as: of several with equal
            bytes the first, in a search the first that the request may see.
    """

    document_id: str
    document_position: int
    file_id: str
    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict, hash=False)
    access: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredChunk:
    """A chunk found by a search.

    Attributes:
        score: what the results are ordered by, higher is better: in hybrid mode the fused score,
            0 to 1; in vector mode the cosine, -1 to 1; in lexical mode BM25, 0 or more; the
            re-ranker's score when it was asked.
        vector_score: cosine of the angle between query and chunk; None when the vector search was
            not asked or didn't find it.
        lexical_score: BM25; None in the same cases.
        rerank_score: None when no re-ranker was asked.
    """

    chunk: Chunk
    score: float
    vector_score: float | None = None
    lexical_score: float | None = None
    rerank_score: float | None = None
