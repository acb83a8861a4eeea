"""Which texts are embedded next: a property of any mixture, and the order of queries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retrieval.embed_batches import MAX_TEXTS, EmbedRequest, MicroBatcher

texts = st.lists(st.text(max_size=60), min_size=1, max_size=40)


@given(st.lists(st.tuples(texts, st.booleans()), max_size=12), st.integers(1, 2000))
def test_every_text_comes_once_and_passages_in_batches_of_like_length(
    asked: list[tuple[list[str], bool]], max_chars: int
) -> None:
    batcher = MicroBatcher()
    requests = [EmbedRequest(given, is_query=is_query) for given, is_query in asked]
    for request in requests:
        batcher.add(request)
    seen_passage = False
    while batch := batcher.next_batch(max_chars):
        kinds = {item.is_query for item in batch}
        assert len(kinds) == 1, "a model reads queries and passages differently"
        is_query = kinds.pop()
        assert not (is_query and seen_passage), "queries go first"
        seen_passage = seen_passage or not is_query
        longest = max(len(item.text) for item in batch)
        assert len(batch) <= MAX_TEXTS
        assert is_query or len(batch) == 1 or len(batch) * longest <= max_chars
        for item in batch:
            assert item.request.rows[item.index] is None
            item.request.put(item.index, np.full(1, len(item.text), dtype=np.float32))
    assert len(batcher) == 0
    for request in requests:
        assert request.done.is_set()
        assert request.vectors()[:, 0].tolist() == [len(text) for text in request.texts]


def test_a_query_goes_ahead_of_passages_that_wait() -> None:
    batcher = MicroBatcher()
    batcher.add(EmbedRequest(["passage"] * 100, is_query=False))
    assert not batcher.next_batch(100)[0].is_query
    batcher.add(EmbedRequest(["query"], is_query=True))
    assert batcher.next_batch(100)[0].is_query


def test_an_early_request_is_not_overtaken_for_ever_by_longer_texts() -> None:
    batcher = MicroBatcher()
    early = EmbedRequest(["short"], is_query=False)
    batcher.add(early)
    batches = 0
    while not early.done.is_set():
        batches += 1
        batcher.add(EmbedRequest(["long " * 20] * 20, is_query=False))
        for item in batcher.next_batch(400):
            item.request.put(item.index, np.zeros(1, dtype=np.float32))
    assert batches < 256


def test_texts_of_a_failed_batch_come_again_alone() -> None:
    batcher = MicroBatcher()
    request = EmbedRequest(["a", "b"], is_query=False)
    batcher.add(request)
    batch = batcher.next_batch(100)
    batcher.put_back(batch)
    assert [[item.text for item in batcher.next_batch(100)] for _ in range(3)] == [["a"], ["b"], []]
