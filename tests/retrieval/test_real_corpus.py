"""Search and citations on a real corpus: over 2 MB of manuals, asked 72 questions.

The manuals are those in black 24.10.0 (Markdown), docutils 0.21.2 (reStructuredText, HTML), hatch
1.14.0 (Markdown) and pygame-ce 2.5.5 (HTML), from PyPI, pinned in `data/real_corpus/packages.json`.
The questions were written before anything was tuned; every other one is held out. The embeddings
of the passages lie beside them; whatever isn't there is embedded by the real model, which takes
minutes when passages are cut in another way. `docs/search.md` has the figures.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from app.citations import cite
from app.prepared import Source, source_of
from bench.retrieval_corpus import read_packages
from bench.retrieval_quality import (
    TENANT,
    Half,
    Question,
    RealCorpus,
    Way,
    ask_all,
    open_corpus,
    read_questions,
    recall,
)
from retrieval import ScoredChunk, SentenceTransformerEmbedder, assemble
from retrieval.assembly import Order
from retrieval.documents import Chunk
from retrieval.embed import Vectors
from retrieval.prepare import embedding_text
from retrieval.vectors.faiss_index import FaissSettings, build, search_rows, select

K = 8
# Seen: 31 of 36 (vectors alone 28, words alone 29), then 31 of those 31.
_LEAST_FOUND = 29 / 36
_LEAST_CITED = 0.93
# Every so many passages are embedded again: a sample of all packages.
_SAMPLE_STEP = 250

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(engine_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCorpus]:
    with open_corpus(tmp_path_factory.mktemp("real-corpus"), engine_cache) as opened:
        yield opened


@pytest.fixture(scope="module")
def passages(corpus: RealCorpus) -> list[Chunk]:
    return corpus.collections.corpus_chunks(corpus.id, tenant=TENANT)


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return read_questions()


@pytest.fixture(scope="module")
def held_out(questions: list[Question]) -> list[Question]:
    return [question for question in questions if question.half is Half.HELD_OUT]


def test_it_is_large_and_of_several_formats(corpus: RealCorpus) -> None:
    documents = corpus.collections.corpus(corpus.id, tenant=TENANT).documents
    assert sum(len(document.text.encode()) for document in documents) >= 2 * 2**20
    formats = {document.media_type for document in documents}
    assert formats == {"text/html", "text/markdown", "text/plain"}
    assert len(documents) == sum(len(package.files) for package in read_packages())


def test_each_answer_stands_in_few_passages(
    passages: list[Chunk], questions: list[Question]
) -> None:
    flat = [(passage.name, " ".join(passage.text.split())) for passage in passages]
    for question in questions:
        for place in question.places:
            held = [n for n, text in flat if n == place.file and re.search(place.passage, text)]
            assert 1 <= len(held) <= 2, place
    assert [question.half for question in questions] == [*Half] * (len(questions) // 2)
    assert len(questions) >= 60


def test_embeddings_are_kept_for_nearly_all_that_is_embedded(
    corpus: RealCorpus, passages: list[Chunk], questions: list[Question]
) -> None:
    """Else every new machine embeds for minutes: `python -m bench.retrieval_quality --keep`."""
    for question in questions:
        corpus.search(question, Way.VECTORS, K)
    assert len(corpus.embedder.missed) <= len(passages) // 100


def test_kept_embeddings_are_what_the_model_gives(
    corpus: RealCorpus, passages: list[Chunk], minilm: SentenceTransformerEmbedder
) -> None:
    texts = [embedding_text(passage) for passage in islice(passages, 0, None, _SAMPLE_STEP)]
    assert len(texts) >= 16
    cosines = (corpus.embedder.embed_passages(texts) * minilm.embed_passages(texts)).sum(axis=1)
    assert cosines.min() > 0.9995


def test_hybrid_finds_more_than_vectors_or_words_alone(
    corpus: RealCorpus, held_out: list[Question]
) -> None:
    found = {way: recall(ask_all(corpus, held_out, way), K) for way in Way}
    assert found[Way.HYBRID] >= max(found[Way.VECTORS], found[Way.WORDS])
    assert found[Way.HYBRID] >= _LEAST_FOUND
    assert found[Way.FILTERED] >= found[Way.HYBRID]


def test_vectors_are_searched_exactly(
    corpus: RealCorpus, passages: list[Chunk], questions: list[Question]
) -> None:
    vectors = _vectors(corpus, passages)
    for question in questions:
        scores = vectors @ corpus.embedder.embed_query(question.question)[0]
        found = corpus.search(question, Way.VECTORS, K)
        exact = np.sort(scores)[::-1][:K]
        assert [scored.score for scored in found] == pytest.approx(exact.tolist(), abs=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        FaissSettings(),
        FaissSettings(flat_below=0, ivf_from=2**62, exhaustive_rows=0),
        FaissSettings(flat_below=0, ivf_from=0, exhaustive_rows=0),
    ],
    ids=["by size", "HNSW", "IVF"],
)
def test_every_kind_of_index_finds_what_an_exact_search_finds(
    corpus: RealCorpus,
    passages: list[Chunk],
    questions: list[Question],
    settings: FaissSettings,
) -> None:
    vectors = _vectors(corpus, passages)
    index, kind = build(vectors, settings)
    good = 0
    for question in questions:
        query = corpus.embedder.embed_query(question.question)
        least = np.sort(vectors @ query[0])[-K]
        everything = select(None, len(vectors))
        _, scores = search_rows(index, kind, query, K, everything, settings)
        good += int((scores >= least - 1e-5).sum())
    assert good / (K * len(questions)) >= 0.95


def test_equal_questions_give_equal_lists(corpus: RealCorpus, held_out: list[Question]) -> None:
    for question in held_out:
        first, second = (_told(corpus.search(question, Way.HYBRID, K)) for _ in range(2))
        assert first == second


def test_a_citation_is_its_documents_own_text(corpus: RealCorpus, held_out: list[Question]) -> None:
    for question in held_out[:12]:
        for scored in corpus.search(question, Way.HYBRID, K):
            chunk = scored.chunk
            text = corpus.collections.file_text(corpus.id, chunk.file_id, tenant=TENANT)
            assert text[chunk.start : chunk.end] == chunk.text


def _ranked(found: Sequence[ScoredChunk]) -> list[Source]:
    return [replace(source_of(scored.chunk), score=scored.score) for scored in found]


def _assembled(found: Sequence[ScoredChunk]) -> list[Source]:
    """In the prompt's order: the collection's, neighbours put together."""
    scores = {scored.chunk.id: scored.score for scored in found}
    excerpts = assemble(found, order=Order.COLLECTION)
    chunks = [part.chunk for excerpt in excerpts for part in excerpt.parts]
    return [replace(source_of(chunk), score=scores[chunk.id]) for chunk in chunks]


@pytest.mark.parametrize("ordered", [_ranked, _assembled])
@pytest.mark.parametrize("names_its_file", [False, True])
def test_an_answer_cites_the_passage_that_it_rests_on(
    corpus: RealCorpus,
    held_out: list[Question],
    ordered: Callable[[Sequence[ScoredChunk]], list[Source]],
    names_its_file: bool,
) -> None:
    """The first citation, of the questions whose passage was found."""
    right = []
    for question in held_out:
        sources = ordered(corpus.search(question, Way.HYBRID, K))
        holding = [s for s in sources if question.is_answered_by(s.document, s.text)]
        if holding:
            name = f" [{holding[0].document}]" if names_its_file else ""
            first = cite(question.answer + name, sources)[:1]
            right.append(any(c["chunk_id"] == s.chunk_id for c in first for s in holding))
    assert sum(right) / len(right) >= _LEAST_CITED


def test_the_order_of_passages_changes_no_citation(
    corpus: RealCorpus, questions: list[Question]
) -> None:
    for question in questions:
        found = corpus.search(question, Way.HYBRID, K)
        before, after = (cite(question.answer, order(found)) for order in (_ranked, _assembled))
        assert [c["chunk_id"] for c in before] == [c["chunk_id"] for c in after]


def _vectors(corpus: RealCorpus, passages: Sequence[Chunk]) -> Vectors:
    return corpus.embedder.embed_passages([embedding_text(passage) for passage in passages])


def _told(found: Sequence[ScoredChunk]) -> list[tuple[str, float]]:
    return [(scored.chunk.id, scored.score) for scored in found]
