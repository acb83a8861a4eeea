"""Where vectors are searched: FAISS in this process, or PostgreSQL with pgvector."""

from retrieval.index_views import Allowed, DocumentKey, Hits, VectorBackend, VectorView
from retrieval.vectors.faiss_backend import FaissBackend
from retrieval.vectors.faiss_index import FaissSettings
from retrieval.vectors.pgvector_backend import PgVectorBackend, PgVectorSettings

__all__ = [
    "Allowed",
    "DocumentKey",
    "FaissBackend",
    "FaissSettings",
    "Hits",
    "PgVectorBackend",
    "PgVectorSettings",
    "VectorBackend",
    "VectorView",
]
