"""What a file becomes before it is stored: text, passages, the words that are embedded. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.chunking import ChunkingSettings, chunk
from retrieval.documents import Document, ParsedDocument, Passage
from retrieval.parsing import parse

# Some 60 tokens: what the embedding model has room for beside a passage of 192.
_MAX_TITLES_CHARS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument:
    """A parsed and chunked file.

    Attributes:
        parsed: without its blocks where they were cut in another process.
        token_count: of its passages together. Encoding a large text a second time as a whole would
            take as long as all of chunking.
    """

    parsed: ParsedDocument
    passages: tuple[Passage, ...]
    token_count: int

    def placed(self, *, position: int, file_id: str) -> Document:
        """The document with its place in a collection."""
        return Document(
            id=self.parsed.id,
            position=position,
            file_id=file_id,
            name=self.parsed.name,
            media_type=self.parsed.media_type,
            text=self.parsed.text,
            token_count=self.token_count,
        )


def prepare(
    name: str,
    data: bytes,
    *,
    count_tokens: Callable[[str], int],
    chunking: ChunkingSettings,
    parse_file: Callable[[str, bytes], ParsedDocument] = parse,
) -> PreparedDocument:
    """A file's text cut into passages.

    Args:
        parse_file: how it is read: here, or by a `DocumentParser` in a process of its own.

    Raises:
        UnreadableDocumentError: the bytes can't become text.
    """
    parsed = parse_file(name, data)
    return prepared(parsed, tuple(chunk(parsed, count_tokens=count_tokens, settings=chunking)))


def prepared(parsed: ParsedDocument, passages: tuple[Passage, ...]) -> PreparedDocument:
    """A file that was read and cut elsewhere."""
    return PreparedDocument(
        parsed=parsed,
        passages=passages,
        token_count=sum(passage.token_count for passage in passages),
    )


def embedding_text(passage: Passage) -> str:
    """What is embedded for a passage: its text under those headings that it doesn't show itself.

    "Adults 9 euros" is found by a question about fares only if its heading says so. Of many or
    long headings the innermost are kept: the model cuts off what is too long at the passage's end.
    """
    titles: list[str] = []
    left = _MAX_TITLES_CHARS
    for title in reversed(passage.heading_path):
        if title not in passage.text:
            left -= len(title)
            if left < 0:
                break
            titles.append(title)
    return "\n".join([*reversed(titles), passage.text])
