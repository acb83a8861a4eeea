"""The prefix flame counts every token once, and shows where prompts part."""

import hypothesis.strategies as st
from hypothesis import given, settings

from cache import prefix_flame
from cache.flame import OTHER, FlameNode
from cache.page_keys import PageKeyMaker, PageKeys
from cache.prefix_flame import Flame

PAGE = 4
MAKER = PageKeyMaker(page_tokens=PAGE, key=b"k")

prompts = st.lists(st.integers(0, 1), max_size=6)
served = st.tuples(
    prompts,
    st.integers(0, 3),  # tokens after the last whole page
    st.one_of(st.none(), st.integers(0, 6)),  # cached pages
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["rules", "document", "question"]))),
    st.sampled_from(["a", "b"]),
)


def test_prompts_part_after_what_they_share() -> None:
    flame = Flame(page_tokens=PAGE)
    labels = [(0, "chat@1"), (0, "rules"), (8, "question")]
    add(flame, [1, 1, 2], end=1, cached=0, labels=labels)
    add(flame, [1, 1, 3], end=0, cached=8, labels=labels)
    (rules,) = flame.export(max_nodes=500).children
    assert (rules.label, rules.start, rules.tokens, rules.requests) == ("chat@1 · rules", 0, 8, 2)
    assert (rules.served_tokens, rules.cached_tokens, rules.known_tokens) == (16, 8, 16)
    first, second = rules.children
    assert (first.label, first.start, first.tokens, first.served_tokens) == ("question", 8, 4, 5)
    assert second.cached_tokens == 0


def test_re_use_that_nobody_reported_is_not_counted_as_none() -> None:
    flame = Flame(page_tokens=PAGE)
    add(flame, [1, 2], cached=None)
    (piece,) = flame.export(max_nodes=500).children
    assert piece.cached_tokens is None
    assert piece.known_tokens == 0
    add(flame, [1, 2], cached=4)
    first, second = list(walk(flame.export(max_nodes=500)))[1:]
    assert (first.cached_tokens, first.known_tokens, first.served_tokens) == (4, 4, 8)
    assert (second.cached_tokens, second.known_tokens, second.served_tokens) == (0, 4, 8)


def test_pieces_that_look_like_one_are_shown_as_one() -> None:
    flame = Flame(page_tokens=PAGE)
    add(flame, [1, 2, 3], cached=4)
    flame.forget("nobody")
    add(flame, [1, 2, 3, 4], cached=4)
    shown = list(walk(flame.export(max_nodes=500)))
    assert [node.tokens for node in shown] == [0, 4, 8, 4]


def test_what_only_a_forgotten_salt_had_keeps_no_label() -> None:
    flame = Flame(page_tokens=PAGE)
    add(flame, [1, 2], labels=[(0, "rules"), (4, "secret.pdf")], salt="a")
    add(flame, [1, 3], labels=[(0, "rules"), (4, "public.pdf")], salt="b")
    flame.forget("a")
    nodes = list(walk(flame.export(max_nodes=500)))
    assert sorted(node.label for node in nodes) == ["", OTHER, "public.pdf", "rules"]
    assert total(nodes[0]) == (16, 16, 0)


def test_an_empty_flame_and_an_empty_prompt_are_shown() -> None:
    flame = Flame(page_tokens=PAGE)
    assert flame.export(max_nodes=500).served_tokens == 0
    add(flame, [], end=3)
    root = flame.export(max_nodes=500)
    assert (root.requests, root.served_tokens, root.children) == (1, 3, ())


@settings(max_examples=100, deadline=None)
@given(st.lists(served, max_size=12), st.integers(1, 12), st.sampled_from([0, 3, 2048]))
def test_no_token_is_lost_or_counted_twice(
    requests: list[tuple[list[int], int, int | None, list[tuple[int, str]], str]],
    max_nodes: int,
    crowded: int,
) -> None:
    flame = Flame(page_tokens=PAGE, crowded_nodes=crowded)
    expected = [0, 0, 0]
    for pages, end, cached_pages, labels, salt in requests:
        cached = None if cached_pages is None else min(cached_pages, len(pages)) * PAGE
        add(flame, pages, end=end, cached=cached, labels=labels, salt=salt)
        tokens = len(pages) * PAGE + end
        expected[0] += tokens
        expected[1] += tokens if cached is not None else 0
        expected[2] += cached or 0
    everything = flame.export(max_nodes=500)
    assert list(total(everything)) == expected
    assert everything.requests == len(requests)
    few = flame.export(max_nodes=max_nodes)
    assert list(total(few)) == expected
    assert sum(node.label != OTHER for node in walk(few)) <= max_nodes
    flame.forget("a")
    assert list(total(flame.export(max_nodes=500))) == expected


def test_it_stays_small_and_keeps_what_is_used() -> None:
    flame = Flame(page_tokens=PAGE)
    number = prefix_flame._KEPT_NODES + 700
    for question in range(number):
        add(flame, [1, 1, 1, question + 10], cached=12)
    assert flame._pieces <= prefix_flame._KEPT_NODES
    root = flame.export(max_nodes=20)
    assert total(root)[0] == number * 16
    assert root.children[0].requests == number


def test_where_it_is_crowded_only_what_is_named_or_used_again_has_a_piece() -> None:
    """Tails of prompts that nobody asks again are put together; no token of them is lost."""
    flame = Flame(page_tokens=PAGE, crowded_nodes=1)
    add(flame, [1, 2], labels=[(0, "rules")], cached=0)
    add(flame, [1, 3, 4], labels=[(0, "rules")], end=2, cached=4)
    add(flame, [1, 5], labels=[(0, "rules"), (4, "a.pdf")], cached=4)
    add(flame, [1, 3, 6], labels=[(0, "rules")], cached=8)
    (rules,) = flame.export(max_nodes=500).children
    assert (rules.label, rules.requests) == ("rules", 4)
    told = {(node.label, node.served_tokens, node.cached_tokens) for node in rules.children}
    # Of [3, 4] nobody knew that it would be used again; of the second [3] that it was.
    assert told == {("", 4, 0), ("a.pdf", 4, 0), ("", 4, 4), (OTHER, 10, 0)}
    assert total(rules)[0] == 8 + 14 + 8 + 12


def test_a_long_chain_of_pieces_is_no_trouble() -> None:
    flame = Flame(page_tokens=PAGE)
    pages = [1] * 700
    for length in range(len(pages), 0, -1):
        add(flame, pages[:length], cached=0)
    assert total(flame.export(max_nodes=10))[0] == sum(range(701)) * PAGE
    flame.forget("a")
    assert flame._pieces == 0


def add(
    flame: Flame,
    pages: list[int],
    *,
    end: int = 0,
    cached: int | None = 0,
    labels: list[tuple[int, str]] | None = None,
    salt: str = "a",
) -> None:
    flame.add(
        keys(pages),
        salt=salt,
        prompt_tokens=len(pages) * PAGE + end,
        cached_tokens=cached,
        labels=labels or [],
    )


def keys(pages: list[int]) -> PageKeys:
    return MAKER.keys([token for page in pages for token in [page] * PAGE])


def walk(node: FlameNode) -> list[FlameNode]:
    found, waiting = [], [node]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node.children[::-1]
    return found


def total(node: FlameNode) -> tuple[int, int, int]:
    """Served, known and re-used tokens of a whole tree."""
    nodes = walk(node)
    return (
        sum(each.served_tokens for each in nodes),
        sum(each.known_tokens for each in nodes),
        sum(each.cached_tokens or 0 for each in nodes),
    )
