"""A FAISS index on disk: the index, its rows, and the manifest that refuses what doesn't fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.errors import IndexDamagedError
from retrieval.index_files import (
    read_digests,
    read_files,
    read_manifest,
    write_files,
    written_digests,
)
from retrieval.index_views import DocumentKey, Places
from retrieval.vectors.faiss_index import METRIC, FaissSettings, IndexKind, faiss_module

FORMAT = 2
NAME = "vectors"
_INDEX = "vectors.faiss"
_PLACES = "vectors.places"
_DOCUMENTS = "vectors.documents"
_STORED_PLACE = np.dtype("<i8")


@dataclass(frozen=True, slots=True, eq=False)
class SavedBase:
    """An index and what its rows are.

    Attributes:
        places: (n,) int64 by row, ascending.
        digests: of the chunk ids of each document that is in it.
    """

    index: Any
    kind: IndexKind
    places: Places
    digests: Mapping[DocumentKey, bytes]


def save_base(folder: Path, base: SavedBase, *, embedder: str, settings: FaissSettings) -> None:
    """Writes an index.

    Raises:
        StorageError: the disk refused.
    """
    described = _described(
        base.kind,
        count=len(base.places),
        dimension=base.index.d,
        embedder=embedder,
        settings=settings,
    )
    files = {
        _INDEX: faiss_module().serialize_index(base.index).tobytes(),
        _PLACES: base.places.astype(_STORED_PLACE).tobytes(),
        _DOCUMENTS: written_digests(base.digests),
    }
    write_files(folder, NAME, described, files)


def load_base(folder: Path, *, dimension: int, embedder: str, settings: FaissSettings) -> SavedBase:
    """The saved index, if it is one of this embedder, built with these parameters.

    Raises:
        IndexNotFoundError: nothing was saved here.
        IndexDamagedError: the files are not what was saved.
        IndexManifestError: it was built from something else or in another way.
    """
    count = read_manifest(folder, NAME).get("count")
    if not isinstance(count, int):
        raise IndexDamagedError(folder, "its manifest says no count")
    kind = settings.kind_for(count)
    described = _described(
        kind, count=count, dimension=dimension, embedder=embedder, settings=settings
    )
    files = read_files(folder, NAME, described)
    faiss = faiss_module()
    try:
        places = np.frombuffer(files[_PLACES], _STORED_PLACE).astype(np.int64)
        digests = read_digests(files[_DOCUMENTS])
        index = faiss.deserialize_index(np.frombuffer(files[_INDEX], np.uint8))
    except (KeyError, ValueError, TypeError, RuntimeError) as exc:
        raise IndexDamagedError(folder, f"it can't be read: {exc}") from exc
    if index.ntotal != count or len(places) != count:
        raise IndexDamagedError(folder, "its parts are of different lengths")
    return SavedBase(index, kind, places, digests)


def _described(
    kind: IndexKind, *, count: int, dimension: int, embedder: str, settings: FaissSettings
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "metric": METRIC,
        "dimension": dimension,
        "embedder": embedder,
        "kind": kind.value,
        "parameters": settings.built_with(kind),
        "count": count,
    }
