"""Collections' own records: metadata, expiry, what they are pinned to."""

from collections.abc import Callable

import pytest

from retrieval import (
    Collection,
    CollectionExpiredError,
    CollectionNotFoundError,
    Collections,
    CollectionStatus,
    InvalidCollectionError,
)

OpenCollections = Callable[..., Collections]
DAY = 86_400


class Clock:
    """Seconds since the epoch, as told."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collections(open_collections: OpenCollections, clock: Clock) -> Collections:
    return open_collections(now=clock)


def with_a_file(collections: Collections, **options: object) -> Collection:
    made = collections.create("ferry", tenant="t", **options)
    file = collections.save_file("a.txt", b"The boat.", "assistants", tenant="t")
    collections.add_file(made.id, file.id, tenant="t")
    return made


def test_what_is_described_comes_back_and_changes_alone(collections: Collections) -> None:
    made = collections.create(
        "ferry", tenant="t", metadata={"team": "boats"}, mode="cag", priority=3
    )
    assert collections.get(made.id, tenant="t") == made
    changed = collections.modify(made.id, tenant="t", name="boats", mode=None)
    assert (changed.name, changed.mode, changed.priority) == ("boats", None, 3)
    assert changed.metadata == {"team": "boats"}
    assert changed.revision == made.revision, "no document changed"
    assert collections.list_all(tenant="t") == [changed]
    with pytest.raises(CollectionNotFoundError):
        collections.modify(made.id, tenant="u", name="theirs")


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        ({"metadata": {str(n): "x" for n in range(17)}}, "it has 17 pairs, 16 are the most"),
        ({"metadata": {"k" * 65: "x"}}, "must have 1 to 64 characters"),
        ({"metadata": {"": "x"}}, "must have 1 to 64 characters"),
        ({"metadata": {"k": "x" * 513}}, "it has 513 characters, 512 are the most"),
        ({"metadata": {"k": 1}}, "its value is not a string"),
        ({"metadata": {"k": "a\0b"}}, "a character that is no text"),
        ({"expires_after_days": 0}, "must be 1 to 365"),
        ({"expires_after_days": 366}, "must be 1 to 365"),
        ({"mode": "fast"}, "must be auto, rag, cag, hybrid"),
        ({"name": "x" * 1025}, "1,024 are the most"),
    ],
)
def test_what_cannot_be_stored_is_refused_in_a_sentence(
    collections: Collections, description: dict[str, object], complaint: str
) -> None:
    arguments = {"name": "ferry"} | description
    with pytest.raises(InvalidCollectionError, match=complaint):
        collections.create(tenant="t", **arguments)
    made = collections.create("ferry", tenant="t")
    with pytest.raises(InvalidCollectionError, match=complaint):
        collections.modify(made.id, tenant="t", **description)


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        ({"attributes": {"k": float("nan")}}, "no string, finite number or boolean"),
        ({"attributes": {"k": ["x"]}}, "no string, finite number or boolean"),
        ({"attributes": {"k": "x" * 513}}, "512 are the most"),
        ({"access": "hr"}, "a string where a list of groups belongs"),
        ({"access": [" "]}, "a group without a name"),
        ({"access": [str(n) for n in range(65)]}, "64 are the most"),
    ],
)
def test_attributes_and_groups_have_limits(
    collections: Collections, description: dict[str, object], complaint: str
) -> None:
    made = with_a_file(collections)
    [file] = collections.list_collection_files(made.id, tenant="t")
    with pytest.raises(InvalidCollectionError, match=complaint):
        collections.update_file(made.id, file.file_id, tenant="t", **description)
    with pytest.raises(InvalidCollectionError, match=complaint):
        collections.enqueue_files(made.id, [file.file_id], tenant="t", **description)


def test_an_expired_collection_answers_nothing_and_keeps_everything(
    collections: Collections, clock: Clock
) -> None:
    made = with_a_file(collections, expires_after_days=2)
    clock.now += 2 * DAY + 61
    expired = collections.get(made.id, tenant="t")
    assert expired.status is CollectionStatus.EXPIRED
    assert expired.removed_at == made.created_at + 32 * DAY
    for ask in (
        lambda: collections.search(made.id, "boat", tenant="t"),
        lambda: collections.corpus(made.id, tenant="t"),
        lambda: collections.touch(made.id, tenant="t"),
        lambda: collections.modify(made.id, tenant="t", name="x"),
        lambda: collections.sync(made.id, [("b.txt", b"x")], tenant="t"),
    ):
        with pytest.raises(
            CollectionExpiredError, match=r"has expired on 2023-11-16; it is kept until 2023-12-16"
        ):
            ask()
    assert collections.overdue(clock.now) == []
    assert len(collections.list_collection_files(made.id, tenant="t")) == 1
    back = collections.modify(made.id, tenant="t", expires_after_days=5)
    assert back.status is CollectionStatus.COMPLETED
    assert len(collections.search(made.id, "boat", tenant="t")) == 1


def test_use_puts_expiry_off(collections: Collections, clock: Clock) -> None:
    made = with_a_file(collections, expires_after_days=1)
    for _ in range(3):
        clock.now += DAY - 1
        assert collections.search(made.id, "boat", tenant="t")
    clock.now += 30
    collections.search(made.id, "boat", tenant="t")
    active = collections.get(made.id, tenant="t")
    assert active.last_active_at == clock.now - 30, "written once a minute at most"
    assert active.revision == 1


def test_an_expired_collection_is_overdue_when_it_said_so(
    collections: Collections, clock: Clock
) -> None:
    made = with_a_file(collections, expires_after_days=1)
    with_a_file(collections)
    clock.now = made.created_at + 31 * DAY - 1
    assert collections.overdue(clock.now) == []
    clock.now += 1
    assert [c.id for c in collections.overdue(clock.now)] == [made.id]


def test_revisions_follow_what_searches_see(collections: Collections) -> None:
    made = with_a_file(collections)
    [file] = collections.list_collection_files(made.id, tenant="t")
    assert collections.corpus(made.id, tenant="t").revision == 1
    collections.update_file(made.id, file.file_id, tenant="t", attributes={"a": True})
    assert collections.corpus(made.id, tenant="t").revision == 2
    collections.update_file(made.id, file.file_id, tenant="t", attributes={"a": True})
    collections.add_file(made.id, file.file_id, tenant="t")
    assert collections.corpus(made.id, tenant="t").revision == 2, "nothing changed"
    changed = collections.update_file(made.id, file.file_id, tenant="t", attributes={"a": 1})
    assert changed.attributes["a"] is not True
    assert collections.corpus(made.id, tenant="t").revision == 3, "to a filter 1 is not true"
