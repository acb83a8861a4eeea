"""Ordering: equal sets of chunks give equal bytes; a collection that grows keeps its opening."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.documents import Chunk, ScoredChunk
from retrieval.ordering import canonical_order, for_prompt


def make_chunk(document_position: int, position: int, text: str = "") -> Chunk:
    text = text or f"text {document_position}.{position}"
    return Chunk(
        id=f"chunk-{document_position}-{position}-{text}",
        position=position,
        start=0,
        end=len(text),
        text=text,
        token_count=1,
        page=None,
        heading_path=(),
        document_id=f"doc-{document_position}",
        document_position=document_position,
        file_id="file-1",
        name="a.txt",
    )


chunks = st.builds(
    make_chunk,
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from(["", "same text", "another"]),
)


@settings(deadline=None)
@given(st.lists(chunks), st.randoms(use_true_random=False))
def test_equal_sets_give_equal_lists(found: list[Chunk], rng: random.Random) -> None:
    again = found + rng.choices(found, k=3) if found else []
    rng.shuffle(again)
    assert canonical_order(again) == canonical_order(found)


@settings(deadline=None)
@given(st.lists(chunks))
def test_each_text_stays_once_at_its_first_place(found: list[Chunk]) -> None:
    ordered = canonical_order(found)
    places = [(c.document_position, c.position) for c in ordered]
    assert places == sorted(places)
    assert {c.text for c in ordered} == {c.text for c in found}
    assert len({c.text for c in ordered}) == len(ordered)
    assert canonical_order(ordered) == ordered


@settings(deadline=None)
@given(st.lists(chunks), st.lists(st.builds(make_chunk, st.integers(6, 9), st.integers(0, 5))))
def test_chunks_of_newer_documents_come_after_all_others(
    old: list[Chunk], new: list[Chunk]
) -> None:
    before = canonical_order(old)
    assert canonical_order(new + old)[: len(before)] == before


@settings(deadline=None)
@given(st.lists(chunks), st.randoms(use_true_random=False))
def test_scores_do_not_reach_the_prompt(found: list[Chunk], rng: random.Random) -> None:
    once = [ScoredChunk(chunk=chunk, score=rng.random()) for chunk in found]
    twice = [ScoredChunk(chunk=chunk, score=rng.random()) for chunk in reversed(found)]
    assert for_prompt(once) == for_prompt(twice) == canonical_order(found)
