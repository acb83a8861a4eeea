"""FAISS: the kind by size, equal graphs for equal rows, files that are used only if they fit."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.errors import (
    IndexDamagedError,
    IndexManifestError,
    IndexNotFoundError,
    StorageError,
)
from retrieval.index_views import DocumentKey
from retrieval.vectors import FaissBackend, FaissSettings
from retrieval.vectors.faiss_backend import FaissView
from retrieval.vectors.faiss_files import SavedBase, load_base, save_base
from retrieval.vectors.faiss_index import IndexKind, build, faiss_module, search_rows, select
from tests.retrieval.indexed import Rows, places, quick_database, random_vectors

# Random vectors have no neighbourhoods: more lists must be looked at than for texts.
SETTINGS = FaissSettings(
    flat_below=100, ivf_from=2000, ivf_list_length=50, ivf_probes=30, exhaustive_rows=50
)
DIGESTS = {DocumentKey(0, "d"): b"x", DocumentKey(7, "e"): b"y"}


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    engine = quick_database(tmp_path / "quick.db")
    yield Rows(engine)
    engine.dispose()


def view(backend: FaissBackend, rows: Rows, held: FaissView | None = None) -> FaissView:
    with rows.engine.connect() as connection:
        return backend.view(connection, rows.collection, rows.document_keys(), held)


@pytest.mark.parametrize(
    ("count", "kind"),
    [(0, "flat"), (9_999, "flat"), (10_000, "hnsw"), (999_999, "hnsw"), (1_000_000, "ivf")],
)
def test_the_kind_goes_by_size(count: int, kind: str) -> None:
    assert FaissSettings().kind_for(count) == kind


@pytest.mark.parametrize("count", [50, 1500, 3000])
def test_equal_rows_give_equal_indexes(count: int) -> None:
    vectors = random_vectors(count)
    faiss = faiss_module()
    one, kind = build(vectors, SETTINGS)
    other, _ = build(vectors, SETTINGS)
    assert kind is SETTINGS.kind_for(count)
    assert faiss.serialize_index(one).tobytes() == faiss.serialize_index(other).tobytes()


@pytest.mark.parametrize("count", [50, 1500, 3000])
@pytest.mark.parametrize("share", [None, 0.5, 0.01])
def test_every_kind_finds_nearly_all_that_is_nearest(count: int, share: float | None) -> None:
    vectors = random_vectors(count)
    index, kind = build(vectors, SETTINGS)
    mask = None if share is None else np.random.default_rng(1).random(count) < share
    selection = select(mask, count)
    found = wanted = 0
    for seed in range(40):
        query = random_vectors(1, seed=10 + seed)
        scores = (vectors @ query[0]) if mask is None else np.where(mask, vectors @ query[0], -9)
        k = min(8, selection.count)
        nearest = np.argsort(-scores, kind="stable")[:k]
        got, _ = search_rows(index, kind, query, 8, selection, SETTINGS)
        assert len(got) == k
        found += len(set(got.tolist()) & set(nearest.tolist()))
        wanted += k
    assert found >= 0.95 * wanted


def saved(folder: Path, count: int = 150) -> None:
    index, kind = build(random_vectors(count), SETTINGS)
    base = SavedBase(index, kind, np.arange(count, dtype=np.int64), DIGESTS)
    save_base(folder, base, embedder="e", settings=SETTINGS)


def load(folder: Path, **changed: object) -> SavedBase:
    arguments = {"dimension": 16, "embedder": "e", "settings": SETTINGS} | changed
    return load_base(folder, **arguments)  # type: ignore[arg-type]


def test_a_saved_index_comes_back_the_same(tmp_path: Path) -> None:
    saved(tmp_path / "deep" / "folder")
    loaded = load(tmp_path / "deep" / "folder")
    index, kind = build(random_vectors(150), SETTINGS)
    everything = select(None, 150)
    query = random_vectors(1, seed=3)
    one = search_rows(loaded.index, loaded.kind, query, 9, everything, SETTINGS)
    other = search_rows(index, kind, query, 9, everything, SETTINGS)
    assert [part.tolist() for part in one] == [part.tolist() for part in other]
    assert loaded.places.tolist() == list(range(150))
    assert loaded.digests == DIGESTS
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("dimension", {"dimension": 17}),
        ("embedder", {"embedder": "other"}),
        ("kind", {"settings": replace(SETTINGS, flat_below=500)}),
        ("parameters", {"settings": replace(SETTINGS, hnsw_links=8)}),
    ],
)
def test_an_index_of_something_else_is_refused(
    tmp_path: Path, field: str, changed: dict[str, object]
) -> None:
    saved(tmp_path)
    with pytest.raises(IndexManifestError, match=field) as caught:
        load(tmp_path, **changed)
    assert caught.value.field == field


@pytest.mark.parametrize(("field", "value"), [("format", 1), ("metric", "l2")])
def test_an_index_of_another_version_is_refused(tmp_path: Path, field: str, value: object) -> None:
    saved(tmp_path)
    path = tmp_path / "vectors.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(IndexManifestError, match=field):
        load(tmp_path)


def test_no_index_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(IndexNotFoundError):
        load(tmp_path)


@pytest.mark.parametrize(
    "damage", ["truncated", "flipped", "manifest cut", "no count", "no digests", "list"]
)
def test_a_damaged_index_is_refused(tmp_path: Path, damage: str) -> None:
    saved(tmp_path)
    index, manifest = tmp_path / "vectors.faiss", tmp_path / "vectors.json"
    data, described = index.read_bytes(), json.loads(manifest.read_text())
    match damage:
        case "truncated":
            index.write_bytes(data[:100])
        case "flipped":
            index.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "manifest cut":
            manifest.write_text(manifest.read_text()[:30])
        case "no count":
            manifest.write_text(json.dumps(described | {"count": None}))
        case "no digests":
            manifest.write_text(json.dumps(described | {"digests": None}))
        case "list":
            manifest.write_text("[]")
    with pytest.raises(IndexDamagedError):
        load(tmp_path)


def test_a_damaged_file_costs_a_rebuild_and_no_answer(tmp_path: Path, rows: Rows) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    backend = FaissBackend(tmp_path / "indexes", settings=SETTINGS)
    assert backend.rebuilt(rows.collection, view(backend, rows)) is not None
    [index] = (tmp_path / "indexes").rglob("vectors.faiss")
    index.write_bytes(index.read_bytes()[:1000])
    query = random_vectors(1, seed=9)
    assert places(view(backend, rows).search(query, 8)) == rows.nearest(query, 8)


def test_a_restart_reads_only_what_changed(tmp_path: Path, rows: Rows) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    backend = FaissBackend(tmp_path / "indexes", settings=SETTINGS)
    backend.rebuilt(rows.collection, view(backend, rows))
    rows.remove("d5")
    rows.add("late", random_vectors(3, seed=200))
    again = view(backend, rows)
    assert again.base.kind is IndexKind.HNSW
    assert (again.base.selection.count, again.tail.selection.count) == (1180, 3)


def test_a_full_disk_costs_no_search(tmp_path: Path, rows: Rows) -> None:
    for number in range(60):
        rows.add(f"d{number}", random_vectors(20, seed=number))
    backend = FaissBackend(tmp_path / "indexes", settings=SETTINGS)
    found = view(backend, rows)
    with files_of_at_most(10_000):
        rebuilt = backend.rebuilt(rows.collection, found)
        with pytest.raises(StorageError, match="refused"):
            saved(tmp_path / "other", 1500)
    assert rebuilt is not None
    assert len(rebuilt.search(random_vectors(1), 8)) == 8
    with pytest.raises(IndexNotFoundError):
        load(tmp_path / "indexes" / rows.id)
    assert not list(tmp_path.rglob("*.part"))


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """The kernel refuses to write more into any file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_many_removals_end_in_a_new_base(tmp_path: Path, rows: Rows) -> None:
    for number in range(70):
        rows.add(f"d{number}", random_vectors(40, seed=number))
    backend = FaissBackend(tmp_path / "indexes", settings=SETTINGS)
    whole = backend.rebuilt(rows.collection, view(backend, rows))
    assert whole is not None
    rows.remove("d0")
    fewer = view(backend, rows, whole)
    assert fewer.base.index is whole.base.index  # one removal builds nothing
    assert backend.rebuilt(rows.collection, fewer) is None
    for number in range(1, 40):
        rows.remove(f"d{number}")
    worn = view(backend, rows, fewer)
    query = random_vectors(1, seed=9)
    assert set(places(worn.search(query, 8))) <= set(rows.vectors)
    rebuilt = backend.rebuilt(rows.collection, worn)
    assert rebuilt is not None
    assert len(rebuilt.base.places) == len(rebuilt) == 1200
