"""The FAISS index: exact search, and a saved index that is used only where it fits."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.embed import Vectors, normalised
from retrieval.errors import IndexDamagedError, IndexManifestError, IndexNotFoundError
from retrieval.index import VectorIndex, empty_index, load_index, read_manifest

D = 8
IDS = [f"chunk-{n}" for n in range(50)]


def vectors(n: int, seed: int = 0) -> Vectors:
    rng = np.random.default_rng(seed)
    return normalised(rng.standard_normal((n, D)).astype(np.float32))


def built(n: int = 50) -> VectorIndex:
    return empty_index(dimension=D, embedder="e").extended(vectors(50)[:n], IDS[:n])


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(1, 60), st.integers(0, 99))
def test_search_finds_the_largest_products(n: int, k: int, seed: int) -> None:
    query = vectors(1, seed=1000 + seed)
    hits = built(n).search(query, k)
    scores = vectors(50)[:n] @ query[0]
    assert [row for row, _ in hits] == np.argsort(-scores, kind="stable")[:k].tolist()
    np.testing.assert_allclose([score for _, score in hits], np.sort(scores)[::-1][:k], atol=1e-6)


def test_equal_scores_come_in_row_order() -> None:
    same = np.repeat(vectors(1), 5, axis=0)
    index = empty_index(dimension=D, embedder="e").extended(same, IDS[:5])
    assert [row for row, _ in index.search(vectors(1), 5)] == [0, 1, 2, 3, 4]


def test_extending_leaves_the_old_index_as_it_was() -> None:
    old = built(20)
    new = old.extended(vectors(50)[20:], IDS[20:])
    assert (len(old), len(new)) == (20, 50)
    assert new.search(vectors(1), 50) == built().search(vectors(1), 50)
    assert len(old.search(vectors(1), 50)) == 20


def test_a_saved_index_comes_back_the_same(tmp_path: Path) -> None:
    manifest = built().save(tmp_path / "deep" / "folder")
    loaded = load_index(tmp_path / "deep" / "folder", dimension=D, embedder="e", chunk_ids=IDS)
    assert loaded.search(vectors(1), 50) == built().search(vectors(1), 50)
    assert read_manifest(tmp_path / "deep" / "folder") == manifest
    assert manifest.chunk_count == 50
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("dimension", {"dimension": 9}),
        ("embedder", {"embedder": "other"}),
        ("chunk_count", {"chunk_ids": IDS[:-1]}),
        ("chunks_digest", {"chunk_ids": IDS[::-1]}),
    ],
)
def test_an_index_of_something_else_is_refused(
    tmp_path: Path, field: str, change: dict[str, object]
) -> None:
    built().save(tmp_path)
    wanted = {"dimension": D, "embedder": "e", "chunk_ids": IDS} | change
    with pytest.raises(IndexManifestError, match=field) as caught:
        load_index(tmp_path, **wanted)
    assert caught.value.field == field


def test_no_index_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(IndexNotFoundError):
        load_index(tmp_path, dimension=D, embedder="e", chunk_ids=IDS)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "manifest cut", "manifest of another"])
def test_a_damaged_index_is_refused(tmp_path: Path, damage: str) -> None:
    built().save(tmp_path)
    index, manifest = tmp_path / "index.faiss", tmp_path / "manifest.json"
    data = index.read_bytes()
    match damage:
        case "truncated":
            index.write_bytes(data[:100])
        case "flipped":
            index.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "manifest cut":
            manifest.write_text(manifest.read_text()[:30])
        case "manifest of another":
            manifest.write_text(json.dumps({"format": 1}))
    with pytest.raises(IndexDamagedError):
        load_index(tmp_path, dimension=D, embedder="e", chunk_ids=IDS)
