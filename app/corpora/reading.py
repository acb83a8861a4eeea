"""A collection's documents and passages, read once for each of its revisions."""

from app.corpora.content import CorpusContent
from app.prepared import source_of
from prompts import PromptDocument
from retrieval import Collection, Collections


def read_content(collections: Collections, collection: Collection) -> CorpusContent:
    """All of a collection, as of one moment; blocks.

    Raises:
        CollectionNotFoundError, CollectionExpiredError: it is gone, or its time is over.
    """
    corpus = collections.corpus(collection.id, tenant=collection.tenant)
    return CorpusContent(
        revision=corpus.revision,
        documents=tuple(PromptDocument(name=d.name, text=d.text) for d in corpus.documents),
        document_ids=tuple(document.id for document in corpus.documents),
        sources=tuple(source_of(chunk) for chunk in corpus.chunks),
        restricted=corpus.restricted,
    )
