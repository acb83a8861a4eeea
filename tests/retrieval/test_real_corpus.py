"""Search and citations on a real corpus: over 2 MB of manuals, asked 72 questions.

The manuals are those in black 24.10.0 (Markdown), docutils 0.21.2 (reStructuredText, HTML), hatch
1.14.0 (Markdown) and pygame-ce 2.5.5 (HTML), from PyPI, pinned in `data/real_corpus/packages.json`.
The questions were written before anything was tuned; every other one is held out. The embeddings
of the passages lie beside them; whatever isn't there is embedded by the real model, which takes
minutes when passages are cut in another way.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from app.citations import cite
from app.prepared import source_of
from bench.retrieval_corpus import read_packages
from bench.retrieval_quality import (
    Half,
    Question,
    RealCorpus,
    Way,
    ask_all,
    open_corpus,
    rank_of,
    read_questions,
    recall,
    reciprocal_rank,
)
from retrieval import FaissSettings, ScoredChunk, SentenceTransformerEmbedder
from retrieval.assembly import Order, assemble
from retrieval.prepare import embedding_text
from retrieval.vectors.faiss_index import build, search_rows, select

TENANT = "bench"
K = 8

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(
    engine_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCorpus]:
    with open_corpus(tmp_path_factory.mktemp("real-corpus"), engine_cache) as opened:
        yield opened


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return read_questions()


@pytest.fixture(scope="module")
def held_out(questions: list[Question]) -> list[Question]:
    return [question for question in questions if question.half is Half.HELD_OUT]


def test_it_is_large_and_holds_several_formats(corpus: RealCorpus) -> None:
    whole = corpus.collections.corpus(corpus.id, tenant=TENANT)
    assert sum(len(document.text.encode()) for document in whole.documents) >= 2 * 2**20
    assert {document.media_type for document in whole.documents} == {
        "text/html",
        "text/markdown",
        "text/plain",
    }
    assert len(whole.documents) == sum(len(package.files) for package in read_packages())


def test_each_question_has_its_passages_in_the_corpus(
    corpus: RealCorpus, questions: list[Question]
) -> None:
    assert [half for half, _ in groupby(q.half for q in questions)] == [*Half] * 36
    passages = corpus.collections.corpus_chunks(corpus.id, tenant=TENANT)
    for question in questions:
        for place in question.places:
            names = [p for p in passages if p.name == place.file]
            held = [p for p in names if _only(question, place.passage).is_answered_by(p.name, p.text)]
            assert 1 <= len(held) <= 2, (question.question, place)
