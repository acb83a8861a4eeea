"""Derived files and the manifest that says what they are and what they were made from.

They are used only if all of it fits; otherwise whoever reads them makes them again from the
database. So a version, a model or a setting that changed costs a rebuild and never a wrong answer.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retrieval.durable import write_atomically
from retrieval.errors import IndexDamagedError, IndexManifestError, IndexNotFoundError
from retrieval.index_views import DocumentKey

_DIGESTS = "digests"


def write_files(
    folder: Path, name: str, described: Mapping[str, Any], files: Mapping[str, bytes]
) -> None:
    """Writes files and their manifest `NAME.json`, each atomically, the manifest last.

    A crash between two of them leaves a manifest that doesn't fit, which reading refuses.

    Raises:
        StorageError: the disk refused.
    """
    for file, data in files.items():
        write_atomically(folder / file, data)
    manifest = {**described, _DIGESTS: {file: _digest(data) for file, data in files.items()}}
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    write_atomically(folder / f"{name}.json", text.encode())


def read_files(folder: Path, name: str, expected: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a manifest that says what is expected.

    Args:
        expected: fields of the manifest; those that it doesn't name aren't looked at.

    Raises:
        IndexNotFoundError: nothing was saved here.
        IndexDamagedError: the files are not what was saved.
        IndexManifestError: they were made from something else.
    """
    manifest = read_manifest(folder, name)
    for field, value in expected.items():
        found = manifest.get(field)
        if found != value:
            raise IndexManifestError(field, value, found)
    files = {}
    for file, digest in manifest[_DIGESTS].items():
        files[file] = _read(folder / file)
        if _digest(files[file]) != digest:
            raise IndexDamagedError(folder, f"the bytes of {file!r} don't fit the manifest")
    return files


def read_manifest(folder: Path, name: str) -> dict[str, Any]:
    """The manifest of saved files.

    Raises:
        IndexNotFoundError: there is none.
        IndexDamagedError: it isn't a manifest.
    """
    data = _read(folder / f"{name}.json")
    try:
        manifest = json.loads(data)
    except ValueError as exc:
        raise IndexDamagedError(folder, "its manifest is not JSON") from exc
    if not isinstance(manifest, dict) or not _are_digests(manifest.get(_DIGESTS)):
        raise IndexDamagedError(folder, "its manifest lacks fields")
    return manifest


def written_digests(digests: Mapping[DocumentKey, bytes]) -> bytes:
    """The documents of an index with the digests of their chunk ids, as a file."""
    rows = [[key.position, key.id, digest.hex()] for key, digest in digests.items()]
    return json.dumps(rows).encode()


def read_digests(data: bytes) -> dict[DocumentKey, bytes]:
    """What `written_digests` wrote.

    Raises:
        ValueError, TypeError: it isn't that.
    """
    rows = json.loads(data)
    return {DocumentKey(position, id): bytes.fromhex(digest) for position, id, digest in rows}


def _are_digests(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    # A manifest names files beside it: nothing in it may lead elsewhere.
    return all(
        Path(file).name == file and isinstance(digest, str) for file, digest in value.items()
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as exc:
        raise IndexNotFoundError(path.parent) from exc
    except OSError as exc:
        raise IndexDamagedError(path.parent, str(exc)) from exc
