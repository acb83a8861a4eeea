"""Files that are written piece by piece: the same as if they had come at once."""

from pathlib import Path

import pytest

from retrieval import Collections, StorageError
from tests.retrieval.test_files import OpenCollections, stored

PIECES = [b"one\n", b"", b"two" * 200_000, b"\n"]


def test_a_draft_is_the_file_that_its_bytes_would_be(open_collections: OpenCollections) -> None:
    collections = open_collections(max_file_bytes=10)
    with collections.draft_file(tenant="t") as draft:
        for piece in PIECES:
            draft.write(piece)
        file = collections.save_draft("a.txt", draft, "p", tenant="t")
    data = b"".join(PIECES)
    assert collections.read_file(file.id, tenant="t") == data
    assert open_collections().save_file("a.txt", data, "p", tenant="t") == file
    assert (file.size_bytes, file.name, file.purpose) == (len(data), "a.txt", "p")


def test_the_same_draft_again_changes_nothing_and_heals(
    collections: Collections, tmp_path: Path
) -> None:
    first = collections.save_file("a.txt", b"abc", "p", tenant="t")
    [path] = stored(tmp_path)
    for damaged in (None, b"abd"):
        if damaged is not None:
            path.write_bytes(damaged)
        with collections.draft_file(tenant="t") as draft:
            draft.write(b"abc")
            assert collections.save_draft("a.txt", draft, "p", tenant="t") == first
        assert stored(tmp_path) == [path]
        assert collections.read_file(first.id, tenant="t") == b"abc"


def test_a_draft_is_nobodys_until_it_is_saved(collections: Collections, tmp_path: Path) -> None:
    with collections.draft_file(tenant="t") as draft:
        draft.write(b"x" * 1_000_000)
        [part] = stored(tmp_path)
        assert part.stat().st_mode & 0o077 == 0
        assert collections.list_files(tenant="t") == []
    assert stored(tmp_path) == []


def test_a_disk_that_refuses_a_draft_leaves_nothing_behind(
    collections: Collections, tmp_path: Path
) -> None:
    (tmp_path / "retrieval").mkdir(exist_ok=True)
    (tmp_path / "retrieval" / "files").write_bytes(b"")
    with (
        pytest.raises(StorageError, match="nothing was changed"),
        collections.draft_file(tenant="t"),
    ):
        pass
    (tmp_path / "retrieval" / "files").unlink()
    assert collections.list_files(tenant="t") == []
