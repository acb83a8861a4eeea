"""What the prefix index knows after single happenings, in the words of its contract."""

import pytest

from cache.errors import PageSizeError
from cache.kv_events import BlockRemoved, BlockStored
from cache.page_keys import PageKeys
from cache.prefix_index import PrefixIndex
from cache.prefix_match import Match, ReplicaMatch
from tests.cache.prefix_tree_checks import check_tree

PAGE = 4


@pytest.fixture
def index() -> PrefixIndex:
    return PrefixIndex(page_tokens=PAGE, key=b"k")


def test_an_index_that_was_told_nothing_knows_nothing(index: PrefixIndex) -> None:
    assert index.match(keys(index, "abc"), salt="s", sent_at=1.0) == Match()


def test_an_empty_prompt_and_one_below_a_page_leave_nothing(index: PrefixIndex) -> None:
    for token_ids in ([], [1, 2, 3]):
        empty = index.keys(token_ids)
        index.sent(empty, salt="s", replica="r", at=1.0)
        index.computed(empty, salt="s", replica="r", at=2.0)
        index.served(empty, salt="s", prompt_tokens=3, cached_tokens=0, labels=list)
        assert index.match(empty, salt="s", sent_at=3.0).left == 0
    assert index.pages == 0


def test_a_prompt_of_one_page_is_left_for_its_own_salt_only(index: PrefixIndex) -> None:
    compute(index, "a", at=1.0)
    assert index.match(keys(index, "a"), salt="s", sent_at=2.0).left == 1
    other = index.match(keys(index, "a"), salt="t", sent_at=2.0)
    assert (other.left, other.other_salts) == (0, 1)


def test_pages_count_from_when_they_were_ready(index: PrefixIndex) -> None:
    compute(index, "ab", at=5.0)
    compute(index, "abcd", at=7.0)
    lefts = [index.match(keys(index, "abcde"), salt="s", sent_at=at).left for at in (4.0, 5.0, 9.0)]
    assert lefts == [0, 2, 4]


def test_what_is_told_late_counts_from_when_it_was(index: PrefixIndex) -> None:
    compute(index, "abcd", at=7.0)
    compute(index, "ab", at=3.0)
    lefts = [index.match(keys(index, "abcd"), salt="s", sent_at=at).left for at in (3.0, 7.0)]
    assert lefts == [2, 4]


def test_pages_under_way_race_until_they_are_computed_or_given_up(index: PrefixIndex) -> None:
    index.sent(keys(index, "abc"), salt="s", replica="r", at=1.0)
    index.sent(keys(index, "abcd"), salt="s", replica="q", at=2.0)
    match = index.match(keys(index, "abce"), salt="s", sent_at=3.0)
    assert (match.left, match.racing, match.replicas["r"].racing) == (0, 3, 3)
    assert index.match(keys(index, "abc"), salt="s", sent_at=0.5).racing == 0
    assert index.match(keys(index, "abc"), salt="t", sent_at=3.0).racing == 0
    index.gave_up(keys(index, "abcd"), salt="s", replica="q")
    compute(index, "abcx", at=4.0)
    match = index.match(keys(index, "abcd"), salt="s", sent_at=5.0)
    assert (match.left, match.racing) == (3, 3)


def test_giving_up_twice_or_never_having_begun_changes_nothing(index: PrefixIndex) -> None:
    index.gave_up(keys(index, "ab"), salt="s", replica="r")
    index.sent(keys(index, "ab"), salt="s", replica="r", at=1.0)
    index.sent(keys(index, "ab"), salt="s", replica="r", at=1.5)
    index.gave_up(keys(index, "ab"), salt="s", replica="r")
    assert index.match(keys(index, "ab"), salt="s", sent_at=2.0).racing == 2
    index.gave_up(keys(index, "ab"), salt="s", replica="r")
    assert index.match(keys(index, "ab"), salt="s", sent_at=2.0).racing == 0


def test_replicas_are_told_apart(index: PrefixIndex) -> None:
    compute(index, "abcd", at=1.0, replica="r")
    compute(index, "ab", at=2.0, replica="q")
    store(index, "ab", replica="q", at=2.0)
    match = index.match(keys(index, "abcd"), salt="s", sent_at=3.0)
    assert match.left == 4
    assert match.replicas["r"] == ReplicaMatch(left=4, racing=4, resident_at_least=4)
    assert (match.replicas["q"].left, match.replicas["q"].resident) == (2, 2)


def test_a_replica_without_events_has_nothing_known_to_be_resident(index: PrefixIndex) -> None:
    compute(index, "ab", at=1.0)
    assert resident(index, "ab") == (None, 2)  # a request had it, and nobody says that it went


def test_a_replica_without_events_that_was_started_anew_holds_what_came_since(
    index: PrefixIndex,
) -> None:
    compute(index, "abc", at=1.0)
    index.restarted("r", at=2.0)
    assert resident(index, "abc") == (None, 0)
    compute(index, "ab", at=3.0)
    assert resident(index, "abc") == (None, 2)


def test_stored_pages_are_left_and_resident_even_if_nobody_here_sent_them(
    index: PrefixIndex,
) -> None:
    store(index, "abc", at=1.0)
    match = index.match(keys(index, "abcd"), salt="s", sent_at=2.0)
    assert (match.left, match.replicas["r"].resident) == (3, 3)


def test_pages_are_evicted_from_the_end_and_stored_again(index: PrefixIndex) -> None:
    store(index, "abcd", at=1.0)
    remove(index, "abcd", first=2, at=2.0)
    assert resident(index, "abcd") == (2, 2)
    assert index.match(keys(index, "abcd"), salt="s", sent_at=3.0).left == 4
    store(index, "abcd", first=2, at=3.0)
    assert resident(index, "abcd") == (4, 4)
    check_tree(index._tree)


def test_a_branch_finds_the_page_it_grows_from_within_a_run(index: PrefixIndex) -> None:
    store(index, "abcd", at=1.0)
    store(index, "abxy", first=2, at=2.0)
    assert (resident(index, "abxy"), resident(index, "abcd")) == ((4, 4), (4, 4))
    remove(index, "abcd", first=2, at=3.0)
    assert (resident(index, "abxy"), resident(index, "abcd")) == ((4, 4), (2, 2))
    remove(index, "abxy", first=0, at=4.0)
    assert resident(index, "abxy") == (0, 0)


def test_an_event_on_the_way_does_not_make_a_computed_page_look_gone(index: PrefixIndex) -> None:
    store(index, "a", at=1.0)
    compute(index, "abc", at=2.0)
    assert resident(index, "abc") == (3, 3)
    store(index, "abc", first=1, at=2.1)
    remove(index, "abc", first=1, at=2.2)
    assert resident(index, "abc") == (1, 1)


def test_a_page_gone_before_its_request_was_told_of_stays_gone(index: PrefixIndex) -> None:
    store(index, "abc", at=1.0)
    remove(index, "abc", first=1, at=2.0)
    compute(index, "abc", at=1.5)
    assert resident(index, "abc") == (1, 1)
    compute(index, "abc", at=3.0)
    assert resident(index, "abc") == (3, 3)


def test_a_flush_leaves_nothing_resident_but_all_of_it_left(index: PrefixIndex) -> None:
    store(index, "abc", at=1.0)
    index.cleared("r", at=2.0)
    match = index.match(keys(index, "abc"), salt="s", sent_at=3.0)
    found = match.replicas["r"]
    assert (match.left, found.resident, found.last_cleared_at) == (3, 0, 2.0)
    store(index, "abc", at=4.0)
    assert resident(index, "abc") == (3, 3)


def test_lost_events_make_what_was_left_doubtful_until_it_is_seen_again(
    index: PrefixIndex,
) -> None:
    store(index, "abc", at=1.0)
    index.evidence_lost("r", at=2.0)
    assert resident(index, "abc") == (None, 0)
    assert resident(index, "x") == (0, 0)
    compute(index, "ab", at=3.0)
    assert resident(index, "abc") == (None, 2)
    assert resident(index, "ab") == (2, 2)
    remove(index, "abc", first=2, at=4.0)
    assert resident(index, "abc") == (2, 2)
    assert not index.match(keys(index, "abc"), salt="t", sent_at=5.0).replicas["r"].resident
    index.cleared("r", at=6.0)
    assert resident(index, "abc") == (0, 0)


def test_a_removal_of_an_unknown_page_casts_doubt_on_pages_without_a_name(
    index: PrefixIndex,
) -> None:
    index.evidence_lost("r", at=1.0)
    compute(index, "ab", at=2.0)
    assert resident(index, "ab") == (2, 2)
    index.removed("r", BlockRemoved(block_hashes=[77]), at=3.0)
    assert resident(index, "ab") == (None, 0)
    compute(index, "ab", at=4.0)
    assert resident(index, "ab") == (2, 2)


def test_pages_after_an_unknown_one_cannot_be_placed(index: PrefixIndex) -> None:
    store(index, "abcd", first=2, at=1.0)
    assert index.pages == 0
    assert resident(index, "abcd") == (0, 0)


def test_pages_without_salt_are_nobodys_of_ours(index: PrefixIndex) -> None:
    store(index, "ab", at=1.0, salt=None)
    match = index.match(keys(index, "ab"), salt="s", sent_at=2.0)
    assert (match.left, match.replicas["r"].resident, match.other_salts) == (0, 0, 2)


def test_other_media_and_adapters_say_nothing_about_the_gpu(index: PrefixIndex) -> None:
    store(index, "ab", at=1.0)
    index.removed("r", BlockRemoved(block_hashes=hashes("ab", "s"), medium="CPU_PINNED"), at=2.0)
    assert resident(index, "ab") == (2, 2)
    for changes in ({"medium": "CPU_PINNED"}, {"lora_name": "adapter"}, {"lora_id": 3}):
        index.stored("r", event("cd", "s", **changes), at=3.0)
    assert index.match(keys(index, "cd"), salt="s", sent_at=4.0).left == 0


def test_an_engine_with_other_pages_is_refused(index: PrefixIndex) -> None:
    odd = BlockStored(block_hashes=[1], parent_block_hash=None, token_ids=[1, 2], block_size=2)
    with pytest.raises(PageSizeError, match="pages of 2 tokens"):
        index.stored("r", odd, at=1.0)


def test_tiers_hold_what_they_were_given_until_they_are_cleared(index: PrefixIndex) -> None:
    index.tiered(keys(index, "abc"), salt="s", at=1.0)
    match = index.match(keys(index, "abcd"), salt="s", sent_at=2.0)
    assert (match.tiered, match.left, match.replicas) == (3, 0, {})
    assert index.match(keys(index, "abc"), salt="t", sent_at=2.0).other_salts == 0
    index.tiers_cleared()
    assert index.match(keys(index, "abc"), salt="s", sent_at=3.0).tiered == 0
    assert index.pages == 0


def test_a_replicas_own_tiers_hold_what_they_were_given_themselves(index: PrefixIndex) -> None:
    index.tiered(keys(index, "abc"), salt="s", at=1.0, tier="r")
    index.tiered(keys(index, "a"), salt="s", at=1.0, tier="q")
    match = index.match(keys(index, "abcd"), salt="s", sent_at=2.0)
    assert (match.given("r"), match.given("q"), match.given(""), match.tiered) == (3, 1, 0, 0)
    assert match.replicas == {}
    assert index.match(keys(index, "abc"), salt="t", sent_at=2.0).other_salts == 0
    index.tiers_cleared("q")
    assert index.match(keys(index, "abc"), salt="s", sent_at=3.0).own_tiers == {"r": 3}
    index.forget_replica("r")  # its tier server is gone with it
    assert index.match(keys(index, "abc"), salt="s", sent_at=3.0).own_tiers == {}
    assert index.pages == 0


def test_a_request_given_up_late_brings_no_forgotten_replica_back(index: PrefixIndex) -> None:
    index.sent(keys(index, "abc"), salt="s", replica="r", at=1.0)
    index.forget_replica("r")
    index.gave_up(keys(index, "abc"), salt="s", replica="r")
    assert index.match(keys(index, "abc"), salt="s", sent_at=2.0) == Match()


def test_a_forgotten_salt_is_as_if_it_had_never_been(index: PrefixIndex) -> None:
    compute(index, "abcd", at=1.0)
    store(index, "abcd", at=1.0)
    index.tiered(keys(index, "abcd"), salt="s", at=1.0)
    index.sent(keys(index, "ax"), salt="s", replica="r", at=1.0)
    compute(index, "ab", at=1.0, salt="t")
    index.forget_salt("s")
    match = index.match(keys(index, "abcd"), salt="s", sent_at=2.0)
    assert (match.left, match.racing, match.tiered, match.other_salts) == (0, 0, 0, 2)
    assert index.pages == 2
    check_tree(index._tree)


def test_an_engine_that_tells_late_brings_no_forgotten_salt_back(index: PrefixIndex) -> None:
    index.forget_salt("s")
    store(index, "abcd", at=1.0)
    store(index, "ab", at=1.0, salt="t")
    match = index.match(keys(index, "abcd"), salt="u", sent_at=2.0)
    assert (match.other_salts, index.pages) == (2, 2)


def test_a_huge_prompt_is_one_run(index: PrefixIndex) -> None:
    whole = index.keys(range(131_072))
    index.computed(whole, salt="s", replica="r", at=1.0)
    longer = index.keys(range(131_072 + 400))
    assert index.match(longer, salt="s", sent_at=2.0).left == 131_072 // PAGE
    index.computed(longer, salt="s", replica="r", at=3.0)
    assert index.runs == 1


def test_a_conversation_stays_one_run(index: PrefixIndex) -> None:
    for turn in range(1, 200):
        index.computed(index.keys(range(turn * 10)), salt="s", replica="r", at=float(turn))
    assert index.runs == 1
    assert index.match(index.keys(range(990)), salt="s", sent_at=500.0).left == 247


def test_where_many_prompts_end_in_a_run_it_is_split() -> None:
    index = PrefixIndex(page_tokens=PAGE, key=b"k")
    for tenant in range(20):
        compute(index, "abcdef" if tenant == 3 else "abc", at=1.0, salt=f"tenant {tenant}")
    assert index.runs == 2
    assert index.match(keys(index, "abcdef"), salt="tenant 3", sent_at=2.0).other_salts == 3
    check_tree(index._tree)


def test_the_least_recently_used_ends_are_forgotten_first() -> None:
    index = PrefixIndex(page_tokens=PAGE, max_pages=6, key=b"k")
    compute(index, "abcd", at=1.0)
    compute(index, "abxy", at=2.0)
    compute(index, "abcd", at=3.0)
    compute(index, "ab12", at=4.0)
    found = [index.match(keys(index, word), salt="s", sent_at=9.0).left for word in WORDS]
    assert found == [4, 2, 4]
    assert index.pages == 6
    check_tree(index._tree)


def test_a_prompt_larger_than_the_index_is_kept_as_far_as_it_fits() -> None:
    index = PrefixIndex(page_tokens=PAGE, max_pages=3, key=b"k")
    compute(index, "abcdef", at=1.0)
    assert index.match(keys(index, "abcdef"), salt="s", sent_at=2.0).left == 3
    store(index, "abcdef", at=2.0)
    assert index.pages <= 3


WORDS = ("abcd", "abxy", "ab12")


def keys(index: PrefixIndex, word: str) -> PageKeys:
    return index.keys(tokens(word))


def tokens(word: str) -> list[int]:
    """A page for each letter."""
    return [ord(letter) for letter in word for _ in range(PAGE)]


def compute(
    index: PrefixIndex, word: str, *, at: float, salt: str = "s", replica: str = "r"
) -> None:
    index.computed(keys(index, word), salt=salt, replica=replica, at=at)


def hashes(word: str, salt: str | None) -> list[int]:
    """What an engine might call the pages."""
    return [hash((salt, word[: end + 1])) for end in range(len(word))]


def event(word: str, salt: str | None, *, first: int = 0, **changes: int | str) -> BlockStored:
    names = hashes(word, salt)
    fields: dict[str, object] = {
        "block_hashes": names[first:],
        "parent_block_hash": names[first - 1] if first else None,
        "token_ids": tokens(word[first:]),
        "block_size": PAGE,
        "cache_salt": salt,
    }
    return BlockStored(**(fields | changes))


def store(
    index: PrefixIndex,
    word: str,
    *,
    at: float,
    first: int = 0,
    salt: str | None = "s",
    replica: str = "r",
) -> None:
    index.stored(replica, event(word, salt, first=first), at=at)


def remove(index: PrefixIndex, word: str, *, first: int, at: float) -> None:
    index.removed("r", BlockRemoved(block_hashes=hashes(word, "s")[first:]), at=at)


def resident(index: PrefixIndex, word: str) -> tuple[int | None, int]:
    found = index.match(keys(index, word), salt="s", sent_at=99.0).replicas["r"]
    assert found.resident_known == (found.resident is not None)
    return found.resident, found.resident_at_least


def test_the_flame_has_all_that_was_served_also_what_waits_to_be_counted(
    index: PrefixIndex,
) -> None:
    for number in range(1, 131):
        served = keys(index, "ab")
        index.served(served, salt="s", prompt_tokens=8, cached_tokens=4, labels=list)
        if number in (1, 64, 65, 130):
            assert index.flame().requests == number
    index.served(
        keys(index, "cd"),
        salt="t",
        prompt_tokens=8,
        cached_tokens=0,
        labels=lambda: [(0, "secret")],
    )
    index.forget_salt("t")
    assert "secret" not in str(index.flame())
