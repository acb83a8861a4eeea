"""BM25: terms of texts, scores against the formula, files that are used only if they fit."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.errors import IndexDamagedError, IndexManifestError, IndexNotFoundError
from retrieval.index_views import Allowed, DocumentKey
from retrieval.lexical import LexicalIndexes, LexicalView
from retrieval.lexical_files import load_segment, save_segment
from retrieval.lexical_segment import Segment, joined, segment_of
from retrieval.lexical_terms import Terms, query_terms
from tests.retrieval.indexed import Rows, allow, places, quick_database

DOCUMENTS = {DocumentKey(0, "d"): b"x"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Ferry", ["the", "ferry"]),
        ("FW703", ["fw703", "fw", "703"]),
        ("10.5 knots", ["10.5", "knots"]),
        ("v1.2", ["v1.2", "v1", "v", "1", "2"]),
        ("CVE-2024-3094", ["cve-2024-3094", "cve", "2024", "3094"]),
        ("get_user_name()", ["get_user_name", "get", "user", "name"]),
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("os.path", ["os.path", "os", "path"]),
        ("__init__", ["init"]),
        ("don't", ["don", "t"]),
        ("café CAFE\u0301", ["cafe", "cafe"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("\ufb01ne \uff11\uff12", ["fine", "12"]),
        ("Привет, мир", ["привет", "мир"]),
        ("Größe42", ["grosse42", "grosse", "42"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("東京都", ["東京", "京都"]),
        ("字", ["字"]),
        ("Python入門", ["python", "入門"]),
        ("… — !?", []),
        ("_ __", []),
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert Terms().of(text) == expected


@given(st.text())
def test_any_text_has_terms_and_a_question_finds_its_own(text: str) -> None:
    terms = Terms().of(text)
    assert all(term and "\n" not in term for term in terms)
    assert set(query_terms(text)) <= set(terms)
    assert bool(query_terms(text)) == bool(terms)


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("How do I board the ferry?", ["board", "ferry"]),
        ("What is it?", ["is", "it", "what"]),
        ("Who pays for the IT department?", ["department", "it", "pays"]),
        ("Wie komme ich zur Fähre?", ["fahre", "ich", "komme", "wie", "zur"]),
        ("do_something", ["do_something", "something"]),
    ],
)
def test_words_that_only_ask_are_left_out(question: str, terms: list[str]) -> None:
    assert query_terms(question) == terms


def test_no_chunk_has_more_than_the_most(database: sqlalchemy.Engine) -> None:
    rows = Rows(database)
    add(rows, "d", ["ferry " * 500 + "harbour " * 500, "ferry", "harbour wall", "gull"])
    found = view(LexicalIndexes(Path("/nowhere")), rows)
    most = found.weigh(["ferry", "harbour"]).most
    assert 0.8 * most < found.search(["ferry", "harbour"], 1).scores[0] < most
    assert found.weigh(["ferry", "harbour", "zeppelin"]).most > 1.5 * most
    assert found.weigh([]).most == 0.0


WORDS = st.sampled_from(["a", "b", "c", "d", "e"])
CHUNKS = st.lists(st.lists(WORDS, max_size=8), max_size=12)


def bm25(chunks: Sequence[Sequence[str]], query: Sequence[str]) -> list[float]:
    """The formula, as it stands in the paper."""
    average = sum(map(len, chunks)) / max(len(chunks), 1) or 1.0
    scores = []
    for terms in chunks:
        counts, score = Counter(terms), 0.0
        for term in query:
            having = sum(term in other for other in chunks)
            rarity = math.log(1 + (len(chunks) - having + 0.5) / (having + 0.5))
            norm = 1.2 * (1 - 0.75 + 0.75 * len(terms) / average)
            score += rarity * counts[term] * 2.2 / (counts[term] + norm) if counts[term] else 0.0
        scores.append(score)
    return scores


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlalchemy.Engine]:
    engine = quick_database(tmp_path / "quick.db")
    yield engine
    engine.dispose()


def add(rows: Rows, name: str, texts: Sequence[str], *, position: int | None = None) -> None:
    vectors = np.ones((len(texts), rows.dimension), np.float32)
    rows.add(name, vectors, texts=texts, position=position)


def view(indexes: LexicalIndexes, rows: Rows, held: LexicalView | None = None) -> LexicalView:
    with rows.engine.connect() as connection:
        return indexes.view(connection, rows.collection, rows.document_keys(), held)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(CHUNKS, st.lists(WORDS, unique=True, max_size=4).map(sorted), st.integers(1, 15))
def test_scores_are_those_of_the_formula(
    database: sqlalchemy.Engine, chunks: list[list[str]], query: list[str], k: int
) -> None:
    clear(database)
    rows = Rows(database)
    add(rows, "d", [" ".join(terms) for terms in chunks])
    hits = view(LexicalIndexes(Path("/nowhere")), rows).search(query, k)
    scores = np.array(bm25(chunks, query), np.float32)
    found = [at for at in np.lexsort((np.arange(len(scores)), -scores)) if scores[at] > 0][:k]
    np.testing.assert_allclose(hits.scores, scores[found], rtol=1e-5)
    assert {*places(hits)} <= {at for at in range(len(scores)) if scores[at] > 0}


def clear(database: sqlalchemy.Engine) -> None:
    with database.begin() as connection:
        for table in ("collections", "documents", "chunks", "collection_files", "files"):
            connection.execute(sqlalchemy.text(f"DELETE FROM {table}"))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=14))
def test_any_history_gives_the_scores_of_what_is_there(
    database: sqlalchemy.Engine, history: list[tuple[bool, int]]
) -> None:
    """Bit by bit those of an index that is made at once."""
    clear(database)
    rows, indexes = Rows(database), LexicalIndexes(Path("/nowhere"))
    held: LexicalView | None = None
    for is_added, number in history:
        name = f"d{number}"
        is_there = name in {key.id for key in rows.document_keys()}
        if is_added and not is_there:
            add(rows, name, [f"a b{number} {'c ' * number}", f"b{number % 2} e", "a"][: number + 1])
        elif is_there and not is_added:
            rows.remove(name)
        held = view(indexes, rows, held)
    if held is None:
        return
    at_once = view(indexes, rows)
    for query in (["a"], ["a", "b1", "c"], ["b", "e"]):
        one, other = held.search(query, 9), at_once.search(query, 9)
        assert places(one) == places(other)
        assert one.scores.tobytes() == other.scores.tobytes()


def test_a_filter_is_kept_and_leaves_scores_alone(database: sqlalchemy.Engine) -> None:
    rows = Rows(database)
    for number in range(20):
        add(rows, f"d{number}", [f"ferry {'boat ' * number}"])
    found = view(LexicalIndexes(Path("/nowhere")), rows)
    everything = dict(zip(places(hits := found.search(["ferry"], 20)), hits.scores, strict=True))
    hits = found.search(["ferry"], 5, allow([3, 11], key="two", size=20))
    assert [place >> 24 for place in places(hits)] == [3, 11]
    assert hits.scores.tolist() == [everything[place] for place in places(hits)]
    nothing = Allowed("none", np.zeros(20, np.bool_))
    assert places(found.search(["ferry"], 5, nothing)) == []


def test_common_words_are_left_out_unless_there_is_nothing_else(
    database: sqlalchemy.Engine,
) -> None:
    rows = Rows(database)
    add(rows, "d", [f"the word{number % 100}" for number in range(1200)])
    found = view(LexicalIndexes(Path("/nowhere")), rows)
    assert len(found.search(["the", "word7"], 64)) == 12
    assert len(found.search(["the"], 64)) == 64


def test_a_long_question_is_answered(database: sqlalchemy.Engine) -> None:
    rows = Rows(database)
    add(rows, "d", ["needle in hay"] + [f"word{number} hay" for number in range(300)])
    question = " ".join(f"word{number}" for number in range(20_000)) + " needle"
    hits = view(LexicalIndexes(Path("/nowhere")), rows).search(query_terms(question), 64)
    assert len(hits) == 64


def test_a_rebuilt_index_is_saved_and_taken_from_disk(
    database: sqlalchemy.Engine, tmp_path: Path
) -> None:
    rows, indexes = Rows(database), LexicalIndexes(tmp_path / "indexes")
    for number in range(3):
        add(rows, f"d{number}", [f"ferry{number} {at}" for at in range(500)])
    before = view(indexes, rows)
    rebuilt = indexes.rebuilt(rows.collection, before)
    assert rebuilt is not None
    assert indexes.held() == {rows.id}
    rows.remove("d1")
    add(rows, "late", ["ferry9 here"])
    for again in (view(indexes, rows, rebuilt), view(indexes, rows)):
        assert len(again) == 1001
        assert len(again.base.segment) == 1500  # not made anew
        assert places(again.search(["ferry1"], 5)) == []
        assert len(again.search(["ferry9"], 5)) == 1
    assert indexes.rebuilt(rows.collection, view(indexes, rows)) is None
    indexes.forget(rows.id)
    assert indexes.held() == set()


def segment() -> Segment:
    return segment_of([(0, ["a", "b", "a"]), (1, ["b"]), (5, [])])


def test_a_saved_segment_comes_back_the_same(tmp_path: Path) -> None:
    save_segment(tmp_path / "deep" / "folder", segment(), DOCUMENTS)
    loaded, digests = load_segment(tmp_path / "deep" / "folder")
    assert digests == DOCUMENTS
    assert loaded.terms == segment().terms
    for name in ("starts", "rows", "counts", "lengths", "places"):
        one, other = getattr(loaded, name), getattr(segment(), name)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


def test_an_empty_segment_comes_back(tmp_path: Path) -> None:
    save_segment(tmp_path, segment_of([]), {})
    assert len(load_segment(tmp_path)[0]) == 0


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "manifest"])
def test_a_damaged_segment_is_refused(tmp_path: Path, damage: str) -> None:
    save_segment(tmp_path, segment(), DOCUMENTS)
    file = tmp_path / "lexical.rows"
    data = file.read_bytes()
    match damage:
        case "truncated":
            file.write_bytes(data[:-4])
        case "flipped":
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "missing":
            file.unlink()
        case "manifest":
            (tmp_path / "lexical.json").write_text('{"digests": {"../secret": "x"}}')
    with pytest.raises((IndexDamagedError, IndexNotFoundError)):
        load_segment(tmp_path)


def test_a_segment_of_other_terms_is_refused(tmp_path: Path) -> None:
    save_segment(tmp_path, segment(), DOCUMENTS)
    manifest = tmp_path / "lexical.json"
    manifest.write_text(manifest.read_text().replace("Unicode", "Unikode"))
    with pytest.raises(IndexManifestError, match="terms"):
        load_segment(tmp_path)


def test_joining_leaves_out_what_has_gone() -> None:
    other = segment_of([(2, ["c", "a"]), (3, ["b"])])
    both = joined([(segment(), np.array([True, False, True])), (other, None)])
    assert both.places.tolist() == [0, 2, 3, 5]
    assert sorted(both.terms) == ["a", "b", "c"]
    found = both.postings("a")
    assert found is not None
    assert (found[0].tolist(), found[1].tolist()) == ([0, 1], [2, 1])
