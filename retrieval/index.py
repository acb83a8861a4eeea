"""A FAISS index of chunk vectors and the manifest that says what it was built from.

The index is a derived artefact: the vectors' home is the database, and an index that is missing,
damaged or built from something else is made again. Rows follow the collection's canonical order,
so row i is the i-th chunk. Flat inner product: exact, and with normalised rows the cosine.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from retrieval.durable import write_atomically
from retrieval.embed import Vectors
from retrieval.errors import IndexDamagedError, IndexManifestError, IndexNotFoundError

FORMAT = 1
_INDEX_FILE = "index.faiss"
_MANIFEST_FILE = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifest:
    """What an index was built from.

    Attributes:
        embedder: id of the embedder.
        chunks_digest: digest of the chunk ids in row order.
        index_digest: digest of the index file's bytes.
    """

    format: int
    metric: str
    dimension: int
    embedder: str
    chunk_count: int
    chunks_digest: str
    index_digest: str


class VectorIndex:
    """Vectors by row, searched by inner product. Immutable: `extended` gives a new one."""

    def __init__(self, index: Any, *, embedder: str, chunk_ids: Sequence[str]) -> None:
        self._index = index
        self.embedder = embedder
        self.chunk_ids = tuple(chunk_ids)

    @property
    def dimension(self) -> int:
        return int(self._index.d)

    def __len__(self) -> int:
        return len(self.chunk_ids)

    def search(self, query: Vectors, k: int) -> list[tuple[int, float]]:
        """The k rows nearest to the query with their scores, best first; fewer if there are fewer.

        Args:
            query: (1, d) float32, L2-normalised.

        Equal scores come in row order, so that the same question finds the same chunks.
        """
        if not len(self):
            return []
        scores, rows = self._index.search(query, min(k, len(self)))
        found = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))

    def extended(self, vectors: Vectors, chunk_ids: Sequence[str]) -> "VectorIndex":
        """This index with more rows at its end; threads that search this one aren't disturbed."""
        index = _faiss().clone_index(self._index)
        index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        return VectorIndex(index, embedder=self.embedder, chunk_ids=[*self.chunk_ids, *chunk_ids])

    def save(self, folder: Path) -> IndexManifest:
        """Writes index and manifest, each atomically, the manifest last.

        A crash between the two leaves a manifest that doesn't fit, which loading refuses.

        Raises:
            StorageError: the disk refused.
        """
        data = _faiss().serialize_index(self._index).tobytes()
        manifest = IndexManifest(
            format=FORMAT,
            metric="inner_product",
            dimension=self.dimension,
            embedder=self.embedder,
            chunk_count=len(self),
            chunks_digest=chunks_digest(self.chunk_ids),
            index_digest=_digest(data),
        )
        write_atomically(folder / _INDEX_FILE, data)
        text = json.dumps(asdict(manifest), indent=2, sort_keys=True) + "\n"
        write_atomically(folder / _MANIFEST_FILE, text.encode())
        return manifest


def empty_index(*, dimension: int, embedder: str) -> VectorIndex:
    """An index without rows."""
    return VectorIndex(_faiss().IndexFlatIP(dimension), embedder=embedder, chunk_ids=())


def load_index(
    folder: Path, *, dimension: int, embedder: str, chunk_ids: Sequence[str]
) -> VectorIndex:
    """The saved index, if it is one of these chunks by this embedder.

    Raises:
        IndexNotFoundError: nothing was saved here.
        IndexDamagedError: the files are not what was saved.
        IndexManifestError: it was built from other chunks or by another embedder.
    """
    manifest = read_manifest(folder)
    expected = {
        "format": FORMAT,
        "metric": "inner_product",
        "dimension": dimension,
        "embedder": embedder,
        "chunk_count": len(chunk_ids),
        "chunks_digest": chunks_digest(chunk_ids),
    }
    for field, value in expected.items():
        found = getattr(manifest, field)
        if found != value:
            raise IndexManifestError(field, value, found)
    data = _read(folder / _INDEX_FILE)
    if _digest(data) != manifest.index_digest:
        raise IndexDamagedError(folder, "its bytes don't fit the manifest's digest")
    index = _faiss().deserialize_index(np.frombuffer(data, dtype=np.uint8))
    return VectorIndex(index, embedder=embedder, chunk_ids=chunk_ids)


def read_manifest(folder: Path) -> IndexManifest:
    """The manifest of a saved index.

    Raises:
        IndexNotFoundError: there is none.
        IndexDamagedError: it isn't a manifest.
    """
    data = _read(folder / _MANIFEST_FILE)
    names = {field.name for field in fields(IndexManifest)}
    try:
        values = json.loads(data)
    except ValueError as exc:
        raise IndexDamagedError(folder, "its manifest is not JSON") from exc
    if not isinstance(values, dict) or values.keys() != names:
        raise IndexDamagedError(folder, "its manifest lacks fields or has unknown ones")
    return IndexManifest(**values)


def chunks_digest(chunk_ids: Sequence[str]) -> str:
    """Digest of the ids in order: equal digests mean equal rows."""
    return _digest("\n".join(chunk_ids).encode())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as exc:
        raise IndexNotFoundError(path.parent) from exc
    except OSError as exc:
        raise IndexDamagedError(path.parent, str(exc)) from exc


def _faiss() -> ModuleType:
    """FAISS, imported at first use: it takes half a second and a thread pool."""
    import faiss

    return faiss
