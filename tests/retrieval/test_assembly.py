"""Equal sets give equal excerpts; near-equal sets share their opening; all text stays, once."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from retrieval import Chunk, Excerpt, Order, ScoredChunk, assemble
from retrieval.assembly import MOST_PROBES

LENGTH = 10


def chunk(document: int, position: int, text: str | None = None, *, gap: int = 2) -> Chunk:
    """A chunk of 10 characters; chunks of a document are `gap` characters apart."""
    start = position * (LENGTH + gap)
    return Chunk(
        id=f"chunk-{document}-{position}",
        position=position,
        start=start,
        end=start + LENGTH,
        text=text or f"d{document:03} p{position:04}",
        token_count=4,
        page=position // 2 + 1,
        heading_path=(f"Part {position}",),
        document_id=f"doc-{document}",
        document_position=document,
        file_id=f"file-{document}",
        name=f"{document}.md",
    )


def scored(*chunks: Chunk) -> list[ScoredChunk]:
    """As a search gives them: best first."""
    return [ScoredChunk(chunk=c, score=1 - n / 100) for n, c in enumerate(chunks)]


def shown(excerpts: Sequence[Excerpt]) -> str:
    return "".join(f'<document name="{e.name}">\n{e.text}\n</document>\n' for e in excerpts)


def shared(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0) or min(
        len(one), len(other)
    )


CHUNKS = [chunk(d, p) for d in range(4) for p in range(6)]
some = st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=12, unique_by=lambda c: c.id)


@given(some, st.randoms(use_true_random=False))
def test_equal_sets_give_equal_excerpts_whatever_the_ranking(found: list[Chunk], random) -> None:  # type: ignore[no-untyped-def]
    other = [*found, *found[:2]]
    random.shuffle(other)
    assert assemble(scored(*found)) == assemble(scored(*other))


@given(some, st.sampled_from(CHUNKS))
def test_sets_that_differ_in_one_chunk_share_all_that_comes_before_it(
    found: list[Chunk], extra: Chunk
) -> None:
    one, other = (shown(assemble(scored(*set_))) for set_ in (found, [*found, extra]))
    before = [c for c in found if (c.document_position, c.position) < _place(extra)]
    if extra in found:
        assert one == other
    elif before:
        last = max(before, key=_place)
        assert shared(one, other) >= one.index(last.text) + len(last.text)


def _place(one: Chunk) -> tuple[int, int]:
    return (one.document_position, one.position)


@given(some)
def test_all_text_is_shown_exactly_once_and_in_place(found: list[Chunk]) -> None:
    excerpts = assemble(scored(*found))
    whole = shown(excerpts)
    assert all(whole.count(c.text) == 1 for c in found)
    parts = [part for excerpt in excerpts for part in excerpt.parts]
    assert sorted(part.chunk.id for part in parts) == sorted(c.id for c in found)
    for excerpt in excerpts:
        for part in excerpt.parts:
            assert excerpt.text[part.at : part.at + part.length] == part.chunk.text
        assert (excerpt.start, excerpt.end) == (
            excerpt.parts[0].chunk.start,
            excerpt.parts[-1].chunk.end,
        )


def test_neighbours_become_one_excerpt_that_begins_as_the_first_alone() -> None:
    [alone] = assemble(scored(chunk(0, 3)))
    [both] = assemble(scored(chunk(0, 4), chunk(0, 3)))
    assert both.chunk_ids == ("chunk-0-3", "chunk-0-4")
    assert both.text == f"{alone.text}\n\n{chunk(0, 4).text}"
    assert (both.page, both.heading_path) == (alone.page, alone.heading_path)
    assert len(assemble(scored(chunk(0, 3), chunk(0, 5)))) == 2
    assert len(assemble(scored(chunk(0, 3), chunk(1, 4)))) == 2


def test_chunks_that_overlap_show_their_common_text_once() -> None:
    text = "The ferry leaves at nine and comes back at noon."
    first = replace(chunk(0, 0, text[:30]), start=0, end=30)
    second = replace(chunk(0, 1, text[20:40]), start=20, end=40)
    inner = replace(chunk(0, 2, text[25:35]), start=25, end=35)
    [excerpt] = assemble(scored(second, inner, first))
    assert excerpt.text == text[:40]
    for part in excerpt.parts:
        assert excerpt.text[part.at : part.at + part.length] == part.chunk.text


def test_equal_text_is_shown_once_where_it_first_stands() -> None:
    twin = replace(chunk(2, 0), text=chunk(0, 1).text)
    [excerpt] = assemble(scored(twin, chunk(0, 1)))
    assert excerpt.document_id == "doc-0"


def test_gaps_of_the_document_stay_white_space() -> None:
    for gap, between in ((0, ""), (1, "\n"), (2, "\n\n"), (9, "\n\n")):
        [excerpt] = assemble(scored(chunk(0, 0, gap=gap), chunk(0, 1, gap=gap)))
        assert excerpt.text == between.join((chunk(0, 0).text, chunk(0, 1).text))


@given(some, some)
def test_what_was_shown_is_not_shown_again(first: list[Chunk], second: list[Chunk]) -> None:
    earlier = assemble(scored(*first))
    later = assemble(scored(*second), shown=earlier)
    seen = {chunk_id for excerpt in earlier for chunk_id in excerpt.chunk_ids}
    fresh = {chunk_id for excerpt in later for chunk_id in excerpt.chunk_ids}
    assert fresh == {c.id for c in second} - seen


def test_by_relevance_the_best_comes_first() -> None:
    found = scored(chunk(2, 0), chunk(0, 0), chunk(1, 4), chunk(1, 3))
    assert [e.name for e in assemble(found, order=Order.RELEVANCE)] == ["2.md", "0.md", "1.md"]


class Cache:
    """Knows prompts as lists of names; counts how often it is asked."""

    def __init__(self, *prompts: Sequence[str]) -> None:
        self.prompts = prompts
        self.asked = 0

    def __call__(self, excerpts: Sequence[Excerpt]) -> int:
        self.asked += 1
        names = [e.name for e in excerpts]
        return 5 + max(
            (10 * next((i for i, (a, b) in enumerate(zip(p, names, strict=False)) if a != b),
                       min(len(p), len(names))) for p in self.prompts),
            default=0,
        )  # fmt: skip


def test_what_is_cached_comes_first_and_the_rest_in_the_collections_order() -> None:
    found = scored(*(chunk(d, 0) for d in (0, 1, 2, 3)))
    cache = Cache(["2.md", "1.md", "9.md"], ["2.md", "3.md", "0.md"])
    names = [e.name for e in assemble(found, order=Order.CACHED, cached_tokens=cache)]
    assert names == ["2.md", "1.md", "0.md", "3.md"]  # of equals, the collection's first
    cold = assemble(found, order=Order.CACHED, cached_tokens=Cache())
    assert cold == assemble(found) == assemble(found, order=Order.CACHED)


@given(st.integers(min_value=1, max_value=64))
def test_asking_the_cache_is_bounded(excerpts: int) -> None:
    found = scored(*(chunk(d, 0) for d in range(excerpts)))
    names = [f"{d}.md" for d in range(excerpts)]
    cache = Cache(list(reversed(names)))
    made = assemble(found, order=Order.CACHED, cached_tokens=cache)
    assert cache.asked <= MOST_PROBES
    assert sorted(e.name for e in made) == sorted(names)


@given(some)
def test_an_order_never_changes_what_is_shown(found: list[Chunk]) -> None:
    by_order = [assemble(scored(*found), order=o, cached_tokens=Cache()) for o in Order]
    assert all(sorted(e.text for e in by_order[0]) == sorted(e.text for e in o) for o in by_order)
