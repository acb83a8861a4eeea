"""What a corpus consists of: its address, and how it differs from what it was. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from app.prepared import Source
from prompts import PromptDocument

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusContent:
    """A collection's documents as they were read, all at once.

    Attributes:
        documents: in the order of ingestion.
        document_ids: made from their bytes; in the same order.
        sources: all passages, in the same order.
        restricted: whether somebody may not see all of it.
    """

    revision: int
    documents: tuple[PromptDocument, ...] = field(repr=False)
    document_ids: tuple[str, ...] = field(repr=False)
    sources: tuple[Source, ...] = field(repr=False)
    restricted: bool = False

    @property
    def characters(self) -> int:
        return sum(len(document.text) for document in self.documents)


class Change(StrEnum):
    """How a corpus differs from what it was before.

    same: not at all. appended: documents were added at the end. changed: a document of the same
    name has other bytes, or the order is another. removed: a document is gone.
    """

    SAME = "same"
    APPENDED = "appended"
    CHANGED = "changed"
    REMOVED = "removed"


def change_between(before: CorpusContent, after: CorpusContent) -> Change:
    """How `after` differs from `before`."""
    old, new = _identities(before), _identities(after)
    if old == new:
        return Change.SAME
    if new[: len(old)] == old:
        return Change.APPENDED
    gone = Counter(d.name for d in before.documents) - Counter(d.name for d in after.documents)
    if gone:
        return Change.REMOVED
    return Change.CHANGED


def content_address(content: CorpusContent, made_by: Sequence[str]) -> str:
    """Hex digest of the documents in order and of all that makes token ids of them.

    Args:
        made_by: names of template, model, tokenizer and page size.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for name in made_by:
        _add(digest, name)
    for document_id, document in zip(content.document_ids, content.documents, strict=True):
        for part in (document_id, document.name, document.text):
            _add(digest, part)
    return digest.hexdigest()


def _identities(content: CorpusContent) -> list[tuple[str, str]]:
    names = (document.name for document in content.documents)
    return list(zip(content.document_ids, names, strict=True))


def _add(digest: "blake2b", part: str) -> None:
    data = part.encode()
    digest.update(len(data).to_bytes(8, "big"))
    digest.update(data)
