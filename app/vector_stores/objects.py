"""OpenAI's objects of vector stores, made from collections. Foreword's own figures stand under
`foreword`."""

from collections.abc import Iterable, Sequence
from typing import Any

from retrieval import (
    Collection,
    CollectionFile,
    CollectionSize,
    FileBatch,
    FileError,
    IngestProgress,
    ScoredChunk,
    SyncResult,
)

# OpenAI has three codes; the sentence beside them says which of ours it is.
_ERROR_CODES = {
    "unreadable_document": "invalid_file",
    "unsupported_document": "unsupported_file",
    "parsing_limit": "invalid_file",
}


def store_object(collection: Collection, size: CollectionSize) -> dict[str, Any]:
    """A vector store."""
    days = collection.expires_after_days
    return {
        "id": collection.id,
        "object": "vector_store",
        "created_at": collection.created_at,
        "name": collection.name,
        "usage_bytes": size.usage_bytes,
        "file_counts": {
            "in_progress": size.in_progress_files,
            "completed": size.completed_files,
            "failed": size.failed_files,
            "cancelled": size.cancelled_files,
            "total": size.total_files,
        },
        "status": collection.status.value,
        "expires_after": None if days is None else {"anchor": "last_active_at", "days": days},
        "expires_at": collection.expires_at,
        "last_active_at": collection.last_active_at,
        "metadata": dict(collection.metadata),
        "foreword": {
            "documents": size.document_count,
            "chunks": size.chunk_count,
            "tokens": size.token_count,
            "revision": collection.revision,
            "mode": collection.mode,
            "priority": collection.priority,
        },
    }


def file_object(
    held: CollectionFile,
    *,
    chunk_tokens: int,
    unchanged: bool | None = None,
    progress: IngestProgress | None = None,
) -> dict[str, Any]:
    """A file's place in a vector store.

    Args:
        chunk_tokens: what passages are cut to.
        unchanged: whether a call that adds it found it there; None for other calls.
        progress: how far it has come, while it is in progress.
    """
    return {
        "id": held.file_id,
        "object": "vector_store.file",
        "created_at": held.created_at,
        "vector_store_id": held.collection_id,
        "usage_bytes": held.usage_bytes,
        "status": held.status.value,
        "last_error": None if held.last_error is None else _error(held.last_error),
        "chunking_strategy": {
            "type": "static",
            "static": {"max_chunk_size_tokens": chunk_tokens, "chunk_overlap_tokens": 0},
        },
        "attributes": dict(held.attributes),
        "foreword": {
            "chunks": held.chunk_count,
            "access": list(held.access),
            "unchanged": unchanged,
            "progress": None if progress is None else _progress(progress),
        },
    }


def batch_object(batch: FileBatch) -> dict[str, Any]:
    """A batch of files."""
    return {
        "id": batch.id,
        "object": "vector_store.files_batch",
        "created_at": batch.created_at,
        "vector_store_id": batch.collection_id,
        "status": batch.status.value,
        "file_counts": {
            "in_progress": batch.in_progress,
            "completed": batch.completed,
            "failed": batch.failed,
            "cancelled": batch.cancelled,
            "total": batch.total,
        },
    }


def search_page(queries: Sequence[str], found: Iterable[ScoredChunk]) -> dict[str, Any]:
    """The results of a search, best first."""
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(queries),
        "data": [_result(scored) for scored in found],
        "has_more": False,
        "next_page": None,
    }


def content_page(text: str) -> dict[str, Any]:
    """What was read of a file."""
    return {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": text}],
        "has_more": False,
        "next_page": None,
    }


def sync_object(collection_id: str, done: SyncResult) -> dict[str, Any]:
    """What a sync did, by file name."""
    return {
        "object": "foreword.sync",
        "vector_store_id": collection_id,
        "added": list(done.added),
        "replaced": list(done.replaced),
        "unchanged": list(done.unchanged),
        "removed": list(done.removed),
        "failed": {name: _error(error) for name, error in done.failed.items()},
        "embedded_chunks": done.embedded_chunks,
        "reused_chunks": done.reused_chunks,
    }


def best_of(results: Iterable[Sequence[ScoredChunk]], limit: int) -> list[ScoredChunk]:
    """The results of several searches as one list: each chunk once, with its best score."""
    best: dict[tuple[str, str], ScoredChunk] = {}
    for scored in (scored for result in results for scored in result):
        key = (scored.chunk.file_id, scored.chunk.id)
        if key not in best or scored.score > best[key].score:
            best[key] = scored
    ranked = sorted(best.values(), key=lambda scored: (-scored.score, scored.chunk.id))
    return ranked[:limit]


def _result(scored: ScoredChunk) -> dict[str, Any]:
    chunk = scored.chunk
    return {
        "file_id": chunk.file_id,
        "filename": chunk.name,
        "score": scored.score,
        "attributes": dict(chunk.attributes),
        "content": [{"type": "text", "text": chunk.text}],
        "foreword": {
            "chunk_id": chunk.id,
            "document_id": chunk.document_id,
            "start": chunk.start,
            "end": chunk.end,
            "page": chunk.page,
            "heading": " > ".join(chunk.heading_path) or None,
            "vector_score": scored.vector_score,
            "lexical_score": scored.lexical_score,
            "rerank_score": scored.rerank_score,
        },
    }


def _error(error: FileError) -> dict[str, str]:
    code = _ERROR_CODES.get(error.code, error.code)
    if code not in ("server_error", "unsupported_file", "invalid_file"):
        code = "server_error"
    return {"code": code, "message": error.message}


def _progress(progress: IngestProgress) -> dict[str, Any]:
    return {
        "stage": progress.stage.value,
        "done_chunks": progress.done_chunks,
        "total_chunks": progress.total_chunks,
        "problem": progress.problem,
    }
