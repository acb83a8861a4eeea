"""Documents in, the same chunks out in the same order.

Files are parsed, cut into chunks, embedded and searched; what is found enters a prompt in an order
that doesn't depend on the question, so that prompts share the longest opening. Usable alone: it
knows nothing of HTTP, prompts or engines. torch, FAISS and sentence-transformers are imported only
when they are first used.
"""

from retrieval.assembly import Excerpt, ExcerptPart, Order, assemble, merge
from retrieval.chunking import ChunkingSettings, chunk
from retrieval.documents import (
    AttributeValue,
    Chunk,
    Document,
    ParsedDocument,
    Passage,
    ScoredChunk,
)
from retrieval.drafts import Draft
from retrieval.embed import (
    Embedder,
    HashingEmbedder,
    SentenceTransformerEmbedder,
    minilm_embedder,
)
from retrieval.embed_models import EmbeddingModel, find_model
from retrieval.embed_process import ProcessEmbedder
from retrieval.errors import (
    AmbiguousCollectionError,
    CollectionExpiredError,
    CollectionFileNotFoundError,
    CollectionNotFoundError,
    EmbedderBusyError,
    EmbedderError,
    EmbedderUnavailableError,
    FileBatchNotFoundError,
    FileTooLargeError,
    IndexDamagedError,
    IndexManifestError,
    IndexNotFoundError,
    InvalidCollectionError,
    InvalidFilterError,
    InvalidSearchError,
    NotInListError,
    ParserUnavailableError,
    ParsingLimitError,
    RerankerError,
    RetrievalError,
    StorageAwayError,
    StorageError,
    StoredFileDamagedError,
    StoredFileNotFoundError,
    UnreadableDocumentError,
)
from retrieval.facade import Collections
from retrieval.filters import Filter, matches, parse_filter
from retrieval.fusion import FusionSettings
from retrieval.listing import Page, PageQuery
from retrieval.ordering import canonical_order, for_prompt
from retrieval.parsing import Cutting, DocumentParser, ParsingLimits, parse
from retrieval.records import (
    UNSET,
    AddedFile,
    Collection,
    CollectionFile,
    CollectionSize,
    CollectionStatus,
    Corpus,
    FileBatch,
    FileError,
    FileStatus,
    IngestProgress,
    IngestStage,
    StoredFile,
    SyncResult,
    Unset,
)
from retrieval.rerank import ProcessReranker, Reranker
from retrieval.search import SearchMode, SearchSettings
from retrieval.tables import metadata
from retrieval.vectors import (
    FaissBackend,
    FaissSettings,
    PgVectorBackend,
    PgVectorSettings,
    VectorBackend,
)

__all__ = [
    "UNSET",
    "AddedFile",
    "AmbiguousCollectionError",
    "AttributeValue",
    "Chunk",
    "ChunkingSettings",
    "Collection",
    "CollectionExpiredError",
    "CollectionFile",
    "CollectionFileNotFoundError",
    "CollectionNotFoundError",
    "CollectionSize",
    "CollectionStatus",
    "Collections",
    "Corpus",
    "Cutting",
    "Document",
    "DocumentParser",
    "Draft",
    "Embedder",
    "EmbedderBusyError",
    "EmbedderError",
    "EmbedderUnavailableError",
    "EmbeddingModel",
    "Excerpt",
    "ExcerptPart",
    "FaissBackend",
    "FaissSettings",
    "FileBatch",
    "FileBatchNotFoundError",
    "FileError",
    "FileStatus",
    "FileTooLargeError",
    "Filter",
    "FusionSettings",
    "HashingEmbedder",
    "IndexDamagedError",
    "IndexManifestError",
    "IndexNotFoundError",
    "IngestProgress",
    "IngestStage",
    "InvalidCollectionError",
    "InvalidFilterError",
    "InvalidSearchError",
    "NotInListError",
    "Order",
    "Page",
    "PageQuery",
    "ParsedDocument",
    "ParserUnavailableError",
    "ParsingLimitError",
    "ParsingLimits",
    "Passage",
    "PgVectorBackend",
    "PgVectorSettings",
    "ProcessEmbedder",
    "ProcessReranker",
    "Reranker",
    "RerankerError",
    "RetrievalError",
    "ScoredChunk",
    "SearchMode",
    "SearchSettings",
    "SentenceTransformerEmbedder",
    "StorageAwayError",
    "StorageError",
    "StoredFile",
    "StoredFileDamagedError",
    "StoredFileNotFoundError",
    "SyncResult",
    "UnreadableDocumentError",
    "Unset",
    "VectorBackend",
    "assemble",
    "canonical_order",
    "chunk",
    "find_model",
    "for_prompt",
    "matches",
    "merge",
    "metadata",
    "minilm_embedder",
    "parse",
    "parse_filter",
]
