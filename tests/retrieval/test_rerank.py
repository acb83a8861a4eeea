"""Re-ranking by a real cross-encoder (tiny, its weights are random) in a process of its own."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retrieval import Collections, ProcessReranker
from retrieval.errors import RerankerError

TEXTS = ["Adults pay 9 euros.", "The ferry runs at 10.5 knots.", "Dogs are welcome on deck."]


def save_cross_encoder(folder: Path, *, labels: int = 1) -> None:
    """A BERT of two small layers that reads words of a small vocabulary."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    names = ["Adults", "pay", "euros", "ferry", "knots", "Dogs", "dogs", "deck"]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *names]
    tokenizer = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=labels,
    )
    encoder = BertForSequenceClassification(config)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.mul_(10)  # as they are, all texts score nearly the same
    encoder.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    ).save_pretrained(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cross-encoder")
    save_cross_encoder(folder)
    return folder


@pytest.fixture(scope="module")
def reranker(model: Path) -> Iterator[ProcessReranker]:
    with ProcessReranker(model) as reranker:
        yield reranker


@pytest.mark.slow
def test_equal_questions_get_equal_scores(reranker: ProcessReranker) -> None:
    scores = reranker.scores("dogs", TEXTS)
    assert len(scores) == len(set(scores)) == 3
    assert reranker.scores("dogs", TEXTS) == scores
    assert reranker.scores("dogs", TEXTS[::-1]) == scores[::-1]
    assert reranker.scores("dogs", []) == []


@pytest.mark.slow
def test_a_search_is_ordered_by_the_re_ranker(
    reranker: ProcessReranker, open_collections: Callable[..., Collections]
) -> None:
    collections = open_collections(reranker=reranker)
    collection = collections.create("c", tenant="t")
    for number, text in enumerate(TEXTS):
        file = collections.save_file(f"{number}.txt", text.encode(), "assistants", tenant="t")
        collections.add_file(collection.id, file.id, tenant="t")
    found = collections.search(collection.id, "dogs on deck", 2, tenant="t", rerank=True)
    expected = dict(zip(TEXTS, reranker.scores("dogs on deck", TEXTS), strict=True))
    assert [one.chunk.text for one in found] == sorted(TEXTS, key=lambda t: -expected[t])[:2]
    for one in found:
        assert one.score == one.rerank_score == pytest.approx(expected[one.chunk.text], abs=1e-4)
        assert one.vector_score is not None


@pytest.mark.slow
def test_a_killed_process_is_started_again(reranker: ProcessReranker) -> None:
    before = reranker.scores("dogs", TEXTS)
    assert reranker.process_id is not None
    os.kill(reranker.process_id, signal.SIGKILL)
    assert reranker.scores("dogs", TEXTS) == before


@pytest.mark.slow
def test_a_model_of_several_labels_is_refused(tmp_path: Path) -> None:
    save_cross_encoder(tmp_path, labels=3)
    with ProcessReranker(tmp_path) as reranker, pytest.raises(RerankerError, match="3 labels"):
        reranker.scores("dogs", TEXTS)


def test_no_model_is_said_to_be_missing(tmp_path: Path) -> None:
    with ProcessReranker(tmp_path) as reranker:
        with pytest.raises(RerankerError, match=r"no config\.json"):
            reranker.scores("dogs", TEXTS)
        assert reranker.process_id is None


def test_a_closed_re_ranker_says_so(tmp_path: Path) -> None:
    reranker = ProcessReranker(tmp_path)
    reranker.close()
    with pytest.raises(RerankerError, match="closed"):
        reranker.scores("dogs", TEXTS)
