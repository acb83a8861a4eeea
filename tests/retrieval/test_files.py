"""Uploads: durable, the same again is the same, deleted is gone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy

from retrieval import (
    Collections,
    FileTooLargeError,
    StorageError,
    StoredFileDamagedError,
    StoredFileNotFoundError,
)

OpenCollections = Callable[..., Collections]


def stored(home: Path) -> list[Path]:
    return sorted(path for path in (home / "retrieval" / "files").rglob("*") if path.is_file())


def test_a_file_comes_back_byte_for_byte_after_a_restart(open_collections: OpenCollections) -> None:
    data = bytes(range(256)) * 100
    file = open_collections().save_file("a.bin", data, "assistants", tenant="t")
    again = open_collections()
    assert again.read_file(file.id, tenant="t") == data
    assert again.get_file(file.id, tenant="t") == file
    assert again.list_files(tenant="t") == [file]
    assert (file.size_bytes, file.name, file.purpose) == (25_600, "a.bin", "assistants")
    assert file.id.startswith("file-")


def test_the_same_upload_is_the_same_file(open_collections: OpenCollections) -> None:
    times = iter([100.0, 200.0, 300.0])
    collections = open_collections(now=lambda: next(times))
    first = collections.save_file("a.txt", b"x", "assistants", tenant="t")
    assert collections.save_file("a.txt", b"x", "assistants", tenant="t") == first
    assert first.created_at == 100
    assert collections.save_file("b.txt", b"x", "assistants", tenant="t").id != first.id
    assert len(collections.list_files(tenant="t")) == 2


def test_files_are_for_their_owner_only_on_disk(collections: Collections, tmp_path: Path) -> None:
    collections.save_file("a.txt", b"x", "assistants", tenant="t")
    collections.save_file("a.txt", b"x", "assistants", tenant="../../u")
    paths = stored(tmp_path)
    assert len(paths) == 2, "two tenants never share bytes"
    for path in paths:
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0


def test_bytes_stay_until_the_last_file_that_has_them_goes(
    collections: Collections, tmp_path: Path
) -> None:
    first = collections.save_file("a.txt", b"x", "assistants", tenant="t")
    second = collections.save_file("b.txt", b"x", "assistants", tenant="t")
    collections.delete_file(first.id, tenant="t")
    assert collections.read_file(second.id, tenant="t") == b"x"
    collections.delete_file(second.id, tenant="t")
    assert stored(tmp_path) == []
    with pytest.raises(StoredFileNotFoundError):
        collections.read_file(second.id, tenant="t")
    with pytest.raises(StoredFileNotFoundError):
        collections.delete_file(second.id, tenant="t")


def test_a_deletion_that_a_crash_cut_off_is_finished_at_the_next_start(
    open_collections: OpenCollections, database: sqlalchemy.Engine, tmp_path: Path
) -> None:
    file = open_collections().save_file("a.txt", b"x", "assistants", tenant="t")
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE files SET deleting = 1")
    collections = open_collections()
    assert stored(tmp_path) == []
    with pytest.raises(StoredFileNotFoundError):
        collections.get_file(file.id, tenant="t")
    assert collections.save_file("a.txt", b"x", "assistants", tenant="t").id == file.id


def test_half_written_bytes_are_removed_at_the_next_start(
    open_collections: OpenCollections, tmp_path: Path
) -> None:
    open_collections().save_file("a.txt", b"x", "assistants", tenant="t")
    part = stored(tmp_path)[0].with_suffix(".part")
    part.write_bytes(b"half")
    open_collections()
    assert len(stored(tmp_path)) == 1


def test_changed_or_lost_bytes_are_said_and_the_same_upload_heals_them(
    collections: Collections, tmp_path: Path
) -> None:
    file = collections.save_file("a.txt", b"abc", "assistants", tenant="t")
    path = stored(tmp_path)[0]
    path.write_bytes(b"abd")
    with pytest.raises(StoredFileDamagedError, match="digest is another"):
        collections.read_file(file.id, tenant="t")
    path.unlink()
    with pytest.raises(StoredFileDamagedError, match="No such file"):
        collections.read_file(file.id, tenant="t")
    collections.save_file("a.txt", b"abc", "assistants", tenant="t")
    assert collections.read_file(file.id, tenant="t") == b"abc"


def test_a_file_that_is_too_large_is_refused(open_collections: OpenCollections) -> None:
    collections = open_collections(max_file_bytes=10)
    collections.save_file("a.txt", b"x" * 10, "assistants", tenant="t")
    with pytest.raises(FileTooLargeError, match="11 bytes, more than the 10"):
        collections.save_file("a.txt", b"x" * 11, "assistants", tenant="t")


def test_a_disk_that_refuses_leaves_nothing_behind(
    collections: Collections, tmp_path: Path
) -> None:
    # A file where a folder has to be: the one refusal that root meets too.
    (tmp_path / "retrieval").mkdir(exist_ok=True)
    (tmp_path / "retrieval" / "files").write_bytes(b"")
    with pytest.raises(StorageError, match="nothing was changed"):
        collections.save_file("a.txt", b"x", "assistants", tenant="t")
    os.remove(tmp_path / "retrieval" / "files")  # noqa: PTH107
    assert collections.list_files(tenant="t") == []
