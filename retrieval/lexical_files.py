"""A lexical segment on disk, with the manifest that refuses what doesn't fit."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from retrieval.errors import IndexDamagedError
from retrieval.index_files import read_digests, read_files, write_files, written_digests
from retrieval.index_views import DocumentKey
from retrieval.lexical_segment import Segment
from retrieval.lexical_terms import VERSION

FORMAT = 1
NAME = "lexical"
_TERMS = "lexical.terms"
_DOCUMENTS = "lexical.documents"
_ARRAYS = {"starts": "<i8", "rows": "<i4", "counts": "<u2", "lengths": "<i4", "places": "<i8"}
_EXPECTED = {"format": FORMAT, "terms": VERSION}


def save_segment(folder: Path, segment: Segment, digests: Mapping[DocumentKey, bytes]) -> None:
    """Writes a segment.

    Raises:
        StorageError: the disk refused.
    """
    files = {
        _TERMS: "\n".join(segment.terms).encode(),
        _DOCUMENTS: written_digests(digests),
    }
    for name, stored in _ARRAYS.items():
        files[_file(name)] = getattr(segment, name).astype(stored).tobytes()
    write_files(folder, NAME, {**_EXPECTED, "count": len(segment)}, files)


def load_segment(folder: Path) -> tuple[Segment, dict[DocumentKey, bytes]]:
    """The saved segment and the digests of its documents' chunk ids.

    Raises:
        IndexNotFoundError: nothing was saved here.
        IndexDamagedError: the files are not what was saved.
        IndexManifestError: its terms were made in another way.
    """
    files = read_files(folder, NAME, _EXPECTED)
    try:
        arrays = {
            name: np.frombuffer(files[_file(name)], stored).astype(stored.lstrip("<"))
            for name, stored in _ARRAYS.items()
        }
        names = files[_TERMS].decode().split("\n") if files[_TERMS] else []
        digests = read_digests(files[_DOCUMENTS])
    except (KeyError, ValueError, TypeError) as exc:
        raise IndexDamagedError(folder, f"it can't be read: {exc}") from exc
    if len(names) + 1 != len(arrays["starts"]) or len(arrays["rows"]) != arrays["starts"][-1]:
        raise IndexDamagedError(folder, "its parts are of different lengths")
    return Segment({name: at for at, name in enumerate(names)}, **arrays), digests


def _file(name: str) -> str:
    return f"lexical.{name}"
