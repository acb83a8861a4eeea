"""The replay finds what a plain list of pages in order of use finds, at every capacity."""

from hypothesis import given
from hypothesis import strategies as st

from cache.request_log.measure import PAGE_HASH_BYTES, PageChain, hash_pages
from cache.request_log.replay import Replay, ReplayStep, replay

_PAGE = 2
_START = bytes(PAGE_HASH_BYTES)


def _chain(tokens: bytes) -> PageChain:
    """One byte is one token."""
    return PageChain(len(tokens), hash_pages(_START, tokens, _PAGE))


def _pages(tokens: bytes, salt: int) -> list[tuple[int, bytes]]:
    return [(salt, tokens[:stop]) for stop in range(_PAGE, len(tokens) + 1, _PAGE)]


Step = tuple[int, bytes, bytes]


def _naive_cached(steps: list[Step], capacity_pages: int | None) -> list[int]:
    """Cached tokens of each request with a list of pages, the least recently used first."""
    held: list[tuple[int, bytes]] = []
    cached = []
    for salt, prompt, answer in steps:
        evicted = 0 if capacity_pages is None else max(0, len(held) - capacity_pages)
        present = set(held[evicted:])
        usable = _pages(prompt, salt)[: max(0, len(prompt) - 1) // _PAGE]
        hits = next((i for i, page in enumerate(usable) if page not in present), len(usable))
        cached.append(hits * _PAGE)
        used = _pages(prompt + answer, salt)
        # Deeper pages are evicted before those they hang on.
        held = [page for page in held if page not in used] + used[::-1]
    return cached


def _replayed(steps: list[Step]) -> Replay:
    made = (
        ReplayStep(salt, _chain(prompt), _chain(prompt + answer)) for salt, prompt, answer in steps
    )
    return replay(made, num_requests=len(steps), page_size=_PAGE)


_STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.text("ab", min_size=1, max_size=9).map(str.encode),
        st.text("ab", max_size=4).map(str.encode),
    ),
    max_size=12,
)


@given(_STEPS)
def test_unbounded_re_use_is_that_of_a_plain_list(steps: list[Step]) -> None:
    """Full pages, never the last token, answers kept, salts apart."""
    assert list(_replayed(steps).cached) == _naive_cached(steps, None)


@given(_STEPS, st.integers(1, 12))
def test_the_curve_is_what_an_lru_cache_of_each_size_would_have_re_used(
    steps: list[Step], capacity: int
) -> None:
    """One pass gives the hits of every capacity."""
    hits = _replayed(steps).curve.hit_pages(capacity) * _PAGE
    assert hits == sum(_naive_cached(steps, capacity))


@given(_STEPS)
def test_the_room_of_a_request_is_where_its_own_hits_begin(steps: list[Step]) -> None:
    """With that much room, and not with less, all of its re-use is there."""
    replayed = _replayed(steps)
    for request, room in enumerate(replayed.room):
        pages = room // _PAGE
        if pages:
            assert _naive_cached(steps, pages)[request] == replayed.cached[request]
            assert _naive_cached(steps, pages - 1)[request] < replayed.cached[request]


def test_a_repeated_prompt_computes_its_last_page_again() -> None:
    """SGLang leaves at least one token to compute, and so one page."""
    replayed = _replayed([(0, b"abcdabcd", b"")] * 2)
    assert list(replayed.cached) == [0, 6]
