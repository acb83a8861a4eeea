"""The retrieval benchmark's own parts: kept embeddings, ranks and shares."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.retrieval_embeddings import KeptEmbedder, load_vectors, save_vectors
from bench.retrieval_quality import (
    Asked,
    Half,
    Place,
    Question,
    Way,
    recall,
    reciprocal_rank,
    table,
)
from retrieval import HashingEmbedder
from retrieval.embed import Vectors

TEXTS = ["Adults pay 9 euros.", "The crossing takes 45 minutes.", "Dogs travel free."]


class Unavailable(HashingEmbedder):
    """A model that isn't there: all vectors must have been kept."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        raise AssertionError(texts)


def asked(rank: int | None, *, half: Half = Half.HELD_OUT) -> Asked:
    return Asked(way=Way.HYBRID, half=half, kind="number", question="?", rank=rank)


def test_kept_vectors_are_nearly_those_that_were_given(tmp_path: Path) -> None:
    model = HashingEmbedder()
    first = KeptEmbedder(tmp_path / "kept.npz", tmp_path / "cache", model=model)
    save_vectors(tmp_path / "kept.npz", first.vectors_of(TEXTS, ["How much?"]))
    kept = KeptEmbedder(tmp_path / "kept.npz", tmp_path / "other", model=Unavailable())
    assert np.allclose(kept.embed_passages(TEXTS), model.embed_passages(TEXTS), atol=0.005)
    assert np.allclose(kept.embed_query("How much?"), model.embed_query("How much?"), atol=0.005)
    assert kept.missed == []


def test_what_is_not_kept_is_embedded_once(tmp_path: Path) -> None:
    first = KeptEmbedder(tmp_path / "none.npz", tmp_path / "cache", model=HashingEmbedder())
    vectors = first.embed_passages(TEXTS)
    assert sorted(first.missed) == sorted(TEXTS)
    again = KeptEmbedder(tmp_path / "none.npz", tmp_path / "cache", model=Unavailable())
    assert np.array_equal(again.embed_passages(TEXTS), vectors)


def test_a_question_and_a_passage_of_the_same_words_are_kept_apart(tmp_path: Path) -> None:
    embedder = KeptEmbedder(tmp_path / "none.npz", tmp_path / "cache", model=HashingEmbedder())
    assert len(embedder.vectors_of(TEXTS, TEXTS)) == 2 * len(TEXTS)


def test_equal_vectors_give_equal_bytes(tmp_path: Path) -> None:
    vectors = dict(enumerate(HashingEmbedder().embed_passages(TEXTS)))
    for name in ("a.npz", "b.npz"):
        save_vectors(tmp_path / name, dict(reversed(vectors.items())))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert load_vectors(tmp_path / "a.npz").keys() == vectors.keys()


def test_a_passage_answers_whatever_its_white_space() -> None:
    question = Question(
        half=Half.TUNING,
        kind="number",
        question="How long?",
        answer="45 minutes",
        places=(Place(file="a/b.md", passage=r"takes 45 minutes"),),
    )
    assert question.is_answered_by("a/b.md", "The crossing\n  takes 45\tminutes.")
    assert not question.is_answered_by("a/c.md", "The crossing takes 45 minutes.")
    assert question.package == "a"


def test_shares_count_what_was_not_found() -> None:
    of = [asked(1), asked(4), asked(None), asked(9)]
    assert [recall(of, k) for k in (1, 4, 8, 16)] == [0.25, 0.5, 0.5, 0.75]
    assert reciprocal_rank(of) == pytest.approx((1 + 1 / 4 + 1 / 9) / 4)


def test_the_table_has_the_halves_apart() -> None:
    lines = table([asked(1), asked(None, half=Half.TUNING)]).splitlines()
    assert lines[2:] == [
        "| tuning (1) | hybrid | 0.000 | 0.000 | 0.000 | 0.000 | 0.000 |",
        "| held out (1) | hybrid | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 |",
    ]
