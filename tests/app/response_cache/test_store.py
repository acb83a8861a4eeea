"""Kept answers in the database: until their time is over, and no more than fit."""

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.response_cache.records import KeptAnswer
from app.response_cache.store import AnswerStore, Given, NewAnswer, given_in

NOW = 1_800_000_000.0
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def new(
    key: str, *, tenant: str = "a", salt: str = "s", at: float = NOW, size: int = 10
) -> NewAnswer:
    answer = KeptAnswer(
        request_id=f"chatcmpl-{key}",
        made_at=at,
        content="x" * size,
        reasoning=None,
        finish_reason="stop",
        usage=USAGE,
    )
    return NewAnswer(key=key, tenant=tenant, salt=salt, answer=answer, expires_at=at + 60)


@pytest.fixture
def store(database: sa.Engine) -> AnswerStore:
    return AnswerStore(database)


def keep(store: AnswerStore, *answers: NewAnswer, max_bytes: int = 2**20, now: float = NOW) -> None:
    store.keep(answers, max_bytes=max_bytes, now=now)


def test_an_answer_is_found_until_its_time_is_over_and_by_its_tenant_alone(
    store: AnswerStore,
) -> None:
    keep(store, new("1"))
    found = store.find("1", tenant="a", now=NOW + 59)
    assert found == new("1").answer
    assert store.find("1", tenant="a", now=NOW + 60) is None
    assert store.find("1", tenant="b", now=NOW) is None
    assert store.find("2", tenant="a", now=NOW) is None


def test_the_last_answer_under_a_key_stands(store: AnswerStore) -> None:
    keep(store, new("1", size=1), new("1", size=2))
    keep(store, new("1", size=3))
    found = store.find("1", tenant="a", now=NOW)
    assert found is not None
    assert len(found.content) == 3
    assert store.kept(tenant=None, now=NOW).answers == 1


def test_the_oldest_go_where_there_is_no_room(store: AnswerStore) -> None:
    for number in range(20):
        keep(store, new(str(number), at=NOW + number, size=1000), max_bytes=5000, now=NOW + number)
    left = [n for n in range(20) if store.find(str(n), tenant="a", now=NOW + 20)]
    assert left
    assert left == list(range(20 - len(left), 20))
    assert store.kept(tenant=None, now=NOW + 20).bytes <= 5000


def test_one_that_is_larger_than_all_room_leaves_nothing_behind(store: AnswerStore) -> None:
    keep(store, new("1", size=10_000), max_bytes=5000)
    assert store.kept(tenant=None, now=NOW).answers == 0


def test_a_tenants_go_together_and_so_do_those_of_a_salt(store: AnswerStore) -> None:
    keep(store, new("1"), new("2", salt="t"), new("3", tenant="b", salt="u"))
    assert store.drop(salts=["t"]) == 1
    assert store.kept(tenant="a", now=NOW).answers == 1
    assert store.drop(tenant="a") == 1
    assert store.find("3", tenant="b", now=NOW) is not None


def test_what_was_given_is_counted_by_hour_and_tenant(
    store: AnswerStore, database: sa.Engine
) -> None:
    two = Given().plus(new("1").answer).plus(new("1").answer)
    store.count({(10, "a"): two, (11, "b"): Given().plus(new("1").answer)})
    store.count({(10, "a"): two})
    with database.connect() as connection:
        ours = given_in(connection, tenant="a", since_hour=0, until_hour=10)
        assert ours == Given(answers=4, prompt_tokens=12, completion_tokens=8)
        assert given_in(connection, tenant=None, since_hour=10, until_hour=11).answers == 5
        assert given_in(connection, tenant=None, since_hour=12, until_hour=99) == Given()


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 90), st.integers(0, 2000))),
    st.integers(500, 6000),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_comes_the_room_is_kept_and_nothing_is_found_after_its_time(
    database: sa.Engine, comes: list[tuple[str, int, int]], max_bytes: int
) -> None:
    """All examples have one database, emptied before each."""
    store, now = AnswerStore(database), NOW
    store.drop(tenant="a")
    made: dict[str, float] = {}
    for key, pause_s, size in comes:
        now += pause_s
        keep(store, new(key, at=now, size=size), max_bytes=max_bytes, now=now)
        made[key] = now
        assert store.kept(tenant=None, now=0).bytes <= max_bytes
        for each, at in made.items():
            found = store.find(each, tenant="a", now=now)
            assert found is None or (found.made_at == at and at + 60 > now)
