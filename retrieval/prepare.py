"""What a file becomes before it is stored: text, passages, the words that are embedded. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from retrieval.chunking import ChunkingSettings, chunk
from retrieval.documents import Document, ParsedDocument, Passage
from retrieval.parsing import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument:
    """A parsed and chunked file."""

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
    name: str, data: bytes, *, count_tokens: Callable[[str], int], chunking: ChunkingSettings
) -> PreparedDocument:
    """A file's text cut into passages.

    Raises:
        UnreadableDocumentError: the bytes can't become text.
    """
    parsed = parse(name, data)
    return PreparedDocument(
        parsed=parsed,
        passages=tuple(chunk(parsed, count_tokens=count_tokens, settings=chunking)),
        token_count=count_tokens(parsed.text),
    )


def embedding_text(passage: Passage) -> str:
    """What is embedded for a passage: its text under those headings that it doesn't show itself.

    "Adults 9 euros" is found by a question about fares only if its heading says so.
    """
    titles = [title for title in passage.heading_path if title not in passage.text]
    return "\n".join([*titles, passage.text])
