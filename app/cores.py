"""The documents of a hybrid prompt's core, read once for each choice of them."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import anyio

from app.prepared import Source, source_of
from prompts import PromptDocument
from retrieval import Collection, Collections

_MOST_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Documents that are shown whole, in the order of the prompt, and their passages.

    `ids` are those of documents that are still there and that everybody may see.
    """

    ids: tuple[str, ...] = ()
    documents: tuple[PromptDocument, ...] = ()
    sources: tuple[Source, ...] = ()


class Cores:
    """Reads and keeps them, the least recently used dropped first. One event loop owns it."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._kept: OrderedDict[tuple[str, int, tuple[str, ...]], Core] = OrderedDict()

    async def read(self, collection: Collection, ids: Sequence[str]) -> Core:
        """The documents with these ids, at the collection's revision.

        Raises:
            CollectionNotFoundError: it was deleted meanwhile.
        """
        if not ids:
            return Core()
        key = (collection.id, collection.revision, tuple(ids))
        kept = self._kept.get(key)
        if kept is None:
            kept = await anyio.to_thread.run_sync(partial(self._load, collection, key[2]))
            self._kept[key] = kept
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept

    def _load(self, collection: Collection, ids: tuple[str, ...]) -> Core:
        corpus = self._collections.corpus(collection.id, tenant=collection.tenant)
        by_id = {d.id: d for d in corpus.documents if not d.access}
        there = tuple(document_id for document_id in ids if document_id in by_id)
        chosen = frozenset(there)
        sources = tuple(source_of(c) for c in corpus.chunks if c.document_id in chosen)
        for source in sources:
            _ = source.words  # found here, not by the event loop for the first answer
        return Core(
            ids=there,
            documents=tuple(PromptDocument(name=by_id[i].name, text=by_id[i].text) for i in there),
            sources=sources,
        )
