"""Documents in, the same chunks out in the same order.

Files are parsed, cut into chunks, embedded and searched; what is found enters a prompt in an order
that doesn't depend on the question, so that prompts share the longest opening. Usable alone: it
knows nothing of HTTP, prompts or engines. torch, FAISS and sentence-transformers are imported only
when they are first used.
"""

from retrieval.chunking import ChunkingSettings, chunk
from retrieval.documents import Chunk, Document, ParsedDocument, Passage, ScoredChunk
from retrieval.embed import (
    Embedder,
    HashingEmbedder,
    SentenceTransformerEmbedder,
    minilm_embedder,
)
from retrieval.errors import (
    AmbiguousCollectionError,
    CollectionFileNotFoundError,
    CollectionNotFoundError,
    EmbedderError,
    FileTooLargeError,
    IndexDamagedError,
    IndexManifestError,
    IndexNotFoundError,
    InvalidSearchError,
    RetrievalError,
    StorageError,
    StoredFileDamagedError,
    StoredFileNotFoundError,
    UnreadableDocumentError,
)
from retrieval.facade import Collections
from retrieval.ordering import canonical_order, for_prompt
from retrieval.parsing import parse
from retrieval.records import (
    Collection,
    CollectionFile,
    CollectionSize,
    FileError,
    FileStatus,
    StoredFile,
)
from retrieval.tables import metadata

__all__ = [
    "AmbiguousCollectionError",
    "Chunk",
    "ChunkingSettings",
    "Collection",
    "CollectionFile",
    "CollectionFileNotFoundError",
    "CollectionNotFoundError",
    "CollectionSize",
    "Collections",
    "Document",
    "Embedder",
    "EmbedderError",
    "FileError",
    "FileStatus",
    "FileTooLargeError",
    "HashingEmbedder",
    "IndexDamagedError",
    "IndexManifestError",
    "IndexNotFoundError",
    "InvalidSearchError",
    "ParsedDocument",
    "Passage",
    "RetrievalError",
    "ScoredChunk",
    "SentenceTransformerEmbedder",
    "StorageError",
    "StoredFile",
    "StoredFileDamagedError",
    "StoredFileNotFoundError",
    "UnreadableDocumentError",
    "canonical_order",
    "chunk",
    "for_prompt",
    "metadata",
    "minilm_embedder",
    "parse",
]
