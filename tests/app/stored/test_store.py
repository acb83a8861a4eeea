"""Conversations in the database: turns one after the other, all of a turn or nothing of it."""

from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa

from app.agents.loop import Step
from app.agents.records import RunRecord, StepRecord
from app.agents.rows import insert_run, insert_step
from app.deletions import KvDeletions
from app.errors import (
    ConversationBusyError,
    ConversationItemNotFoundError,
    ConversationNotFoundError,
    InvalidRequestError,
    NotStoredError,
    ResponseNotFoundError,
)
from app.leases import NOBODYS
from app.salts import Salts
from app.settings import ConversationsSettings
from app.stored.compaction import cut_place, is_due
from app.stored.expiry import StoredExpiry
from app.stored.items import input_items
from app.stored.records import Compaction, Resumption, StoredResponse, Summary, packed
from app.stored.responses import ResponseStore
from app.stored.store import ConversationStore
from app.stored.turn_store import LEASE_S
from app.tables import agent_runs, conversation_items, kv_deletions, stored_responses
from prompts import Message, load_tokenizer
from retrieval import Collections, HashingEmbedder
from tests.app.clock import Clock
from tests.app.test_conversations import prompt, user

T, OTHER = "t1", "t2"
DAY_S = 86_400.0


@pytest.fixture
def store(database: sa.Engine, clock: Clock) -> ConversationStore:
    return ConversationStore(database, now=clock)


def made(store: ConversationStore, *texts: str, tenant: str = T) -> str:
    items = input_items([{"role": "user", "content": text} for text in texts])
    return store.create(tenant=tenant, metadata={}, items=items).id


def said(store: ConversationStore, conversation: str) -> list[str]:
    page, _ = store.items_page(conversation, tenant=T, after=None, limit=100, newest_first=False)
    return [str(each.item["content"][0]["text"]) for each in page]


def end(store: ConversationStore, conversation: str, response: str, *texts: str) -> None:
    items = input_items([{"role": "user", "content": text} for text in texts])
    store.end_turn(conversation, items, response_id=response, tokens=7, response=None)


def test_one_turn_at_a_time(store: ConversationStore, clock: Clock) -> None:
    talk = made(store, "a")
    _, before = store.begin_turn(talk, "resp_1", tenant=T)
    assert [item.item["role"] for item in before.items] == ["user"]
    with pytest.raises(ConversationBusyError, match="resp_1"):
        store.begin_turn(talk, "resp_2", tenant=T)
    with pytest.raises(ConversationBusyError):
        store.add_items(talk, input_items("x"), tenant=T)
    clock.now += LEASE_S - 1
    store.keep_alive([(talk, "resp_1")])
    clock.now += LEASE_S - 1
    with pytest.raises(ConversationBusyError):
        store.begin_turn(talk, "resp_2", tenant=T)
    end(store, talk, "resp_1", "b")
    assert said(store, talk) == ["a", "b"]
    conversation, _ = store.begin_turn(talk, "resp_2", tenant=T)
    assert conversation.tokens == 7
    store.leave_turn(talk, "resp_2")
    assert said(store, talk) == ["a", "b"]


def test_a_turn_whose_gateway_died_never_was(store: ConversationStore, clock: Clock) -> None:
    talk = made(store, "a")
    store.begin_turn(talk, "resp_1", tenant=T)
    clock.now += LEASE_S + 1
    store.begin_turn(talk, "resp_2", tenant=T)
    # Should it live after all, it is too late.
    store.keep_alive([(talk, "resp_1")])
    with pytest.raises(NotStoredError, match="taken over"):
        end(store, talk, "resp_1", "b")
    end(store, talk, "resp_2", "c")
    assert said(store, talk) == ["a", "c"]


def test_a_conversation_that_was_deleted_stays_so(store: ConversationStore) -> None:
    talk = made(store, "a")
    store.begin_turn(talk, "resp_1", tenant=T)
    store.delete(talk, tenant=T)
    with pytest.raises(NotStoredError):
        end(store, talk, "resp_1", "b")
    with pytest.raises(ConversationNotFoundError):
        store.get(talk, tenant=T)


def test_what_belongs_to_another_tenant_is_not_there(
    store: ConversationStore, database: sa.Engine
) -> None:
    talk = made(store, "a")
    [item], _ = store.items_page(talk, tenant=T, after=None, limit=1, newest_first=True)
    for ask in (
        lambda: store.get(talk, tenant=OTHER),
        lambda: store.delete(talk, tenant=OTHER),
        lambda: store.begin_turn(talk, "resp_1", tenant=OTHER),
        lambda: store.add_items(talk, input_items("x"), tenant=OTHER),
        lambda: store.item(talk, item.id, tenant=OTHER),
        lambda: store.delete_item(talk, item.id, tenant=OTHER),
        lambda: store.fork(talk, tenant=OTHER, through=None, metadata=None),
        lambda: store.page(tenant=OTHER, after=talk, limit=1, newest_first=True),
    ):
        with pytest.raises(ConversationNotFoundError):
            ask()
    assert store.page(tenant=OTHER, after=None, limit=9, newest_first=True) == ([], False)
    assert said(store, talk) == ["a"]
    responses = ResponseStore(database)
    responses.keep(_response("resp_1", previous=None))
    for look in (responses.get, responses.said, responses.delete):
        with pytest.raises(ResponseNotFoundError):
            look("resp_1", tenant=OTHER)


@pytest.mark.parametrize("name", ["", "conv_\x00", "\ud800", "conv_é", "a" * 5000])
def test_what_no_id_is_spelled_like_is_not_there(
    store: ConversationStore, database: sa.Engine, name: str
) -> None:
    talk = made(store, "a")
    with pytest.raises(ConversationNotFoundError):
        store.begin_turn(name, "resp_1", tenant=T)
    with pytest.raises(ConversationNotFoundError):
        store.add_items(name, input_items("x"), tenant=T)
    with pytest.raises(ConversationItemNotFoundError):
        store.item(talk, name, tenant=T)
    with pytest.raises(ResponseNotFoundError):
        ResponseStore(database).get(name, tenant=T)


def test_a_summary_stands_for_its_items_and_forks_keep_it_where_they_have_them(
    store: ConversationStore,
) -> None:
    talk = made(store, "a", "b", "c")
    store.begin_turn(talk, "resp_1", tenant=T)
    store.compact(talk, "resp_1", Summary(text="ab", through=1))
    store.leave_turn(talk, "resp_1")
    conversation, rest = store.begin_turn(talk, "resp_2", tenant=T)
    store.leave_turn(talk, "resp_2")
    assert conversation.summary == rest.summary == Summary(text="ab", through=1)
    assert [item.position for item in rest.items] == [2]
    assert said(store, talk) == ["a", "b", "c"]
    page, _ = store.items_page(talk, tenant=T, after=None, limit=9, newest_first=False)
    whole = store.fork(talk, tenant=T, through=None, metadata=None)
    early = store.fork(talk, tenant=T, through=page[0].id, metadata=None)
    assert (whole.summary, early.summary) == (conversation.summary, None)
    assert (said(store, whole.id), said(store, early.id)) == (["a", "b", "c"], ["a"])
    with pytest.raises(InvalidRequestError, match="summary"):
        store.delete_item(talk, page[0].id, tenant=T)
    with pytest.raises(NotStoredError):
        store.compact(talk, "resp_2", Summary(text="x", through=2))


def _chain(responses: ResponseStore, length: int, *, at: float = 0.0) -> None:
    for n in range(length):
        previous = f"resp_{n - 1}" if n else None
        responses.keep(_response(f"resp_{n}", previous=previous, at=at))


def _rows(database: sa.Engine) -> set[str]:
    with database.connect() as connection:
        return set(connection.execute(sa.select(stored_responses.c.id)).scalars())


def test_a_chain_is_all_that_was_said(database: sa.Engine) -> None:
    responses = ResponseStore(database)
    _chain(responses, 30)
    chain = responses.said("resp_29", tenant=T)
    assert [item.id for item in chain] == [
        f"{k}_resp_{n}" for n in range(30) for k in ("in", "out")
    ]
    assert [item.output_ids for item in chain[:2]] == [None, packed([1, 2])]


def test_what_was_deleted_of_a_chain_is_seen_by_nobody_and_stays_in_its_prompts(
    database: sa.Engine,
) -> None:
    responses = ResponseStore(database)
    _chain(responses, 5)
    before = responses.said("resp_4", tenant=T)
    for gone in ("resp_0", "resp_3"):
        responses.delete(gone, tenant=T)
        for seen in (responses.get, responses.delete, responses.said):
            with pytest.raises(ResponseNotFoundError, match=gone):
                seen(gone, tenant=T)
    assert responses.said("resp_4", tenant=T) == before
    with database.connect() as connection:
        where = stored_responses.c.id == "resp_0"
        row = connection.execute(sa.select(stored_responses).where(where)).one()
    # No more of it than the prompt shows.
    assert (row.response, row.input, row.output_ids) == ({}, [], None)
    responses.delete("resp_4", tenant=T)
    assert _rows(database) == {"resp_0", "resp_1", "resp_2"}
    responses.delete("resp_2", tenant=T)
    responses.delete("resp_1", tenant=T)
    assert _rows(database) == set()


def test_what_an_agent_said_stays_too_and_its_run_is_gone(database: sa.Engine) -> None:
    responses = ResponseStore(database)
    run = RunRecord(id="resp_0", tenant=T, agent="a", created_at=0.0, request={})
    with database.begin() as connection:
        insert_run(connection, run, NOBODYS)
        for number in range(2):
            step = StepRecord(
                number=number,
                items=[{"id": f"msg_{number}", "type": "message"}],
                step=Step(finish="stop", tokens=2),
                report={},
                output_ids=packed([number, 7]),
                tokenizer="tok",
            )
            insert_step(connection, "resp_0", step)
        connection.execute(sa.update(agent_runs).values(ended_at=1.0))
    _chain(responses, 2)
    before = responses.said("resp_1", tenant=T)
    assert [item.id for item in before[:3]] == ["in_resp_0", "msg_0", "msg_1"]
    responses.delete("resp_0", tenant=T)
    assert responses.said("resp_1", tenant=T) == before
    with database.connect() as connection:
        assert connection.execute(sa.select(agent_runs)).all() == []


def test_branches_need_what_they_have_in_common(database: sa.Engine) -> None:
    responses = ResponseStore(database)
    _chain(responses, 2)
    responses.keep(_response("resp_b", previous="resp_0"))
    responses.delete("resp_0", tenant=T)
    responses.delete("resp_1", tenant=T)
    assert responses.said("resp_b", tenant=T)[0].id == "in_resp_0"
    responses.delete("resp_b", tenant=T)
    assert _rows(database) == set()


def test_a_chain_lives_as_long_as_it_is_gone_on_from(database: sa.Engine) -> None:
    responses = ResponseStore(database)
    days = 80
    for day in range(days):
        previous = f"resp_{day - 1}" if day else None
        responses.keep(_response(f"resp_{day}", previous=previous, at=day * DAY_S))
        responses.expire(before=(day - 30) * DAY_S)
        assert len(responses.said(f"resp_{day}", tenant=T)) == 2 * (day + 1)
    with pytest.raises(ResponseNotFoundError, match="resp_3"):
        responses.get("resp_3", tenant=T)
    assert len(_rows(database)) == days
    responses.expire(before=days * DAY_S)
    assert _rows(database) == set()


def test_a_long_chain_is_let_go_of_some_at_a_time(database: sa.Engine) -> None:
    responses = ResponseStore(database)
    _chain(responses, 250, at=DAY_S)
    for n in range(250):
        responses.delete(f"resp_{n}", tenant=T)
    assert 0 < len(_rows(database)) < 250
    responses.expire(before=0.0)
    assert _rows(database) == set()


def test_what_was_deleted_meanwhile_is_not_gone_on_from(database: sa.Engine) -> None:
    responses = ResponseStore(database)
    _chain(responses, 1)
    responses.delete("resp_0", tenant=T)
    with pytest.raises(NotStoredError, match="resp_0"):
        responses.keep(_response("resp_1", previous="resp_0"))


def test_a_chain_that_an_older_gateway_broke_is_told_so(database: sa.Engine) -> None:
    """Without an id that the client never named."""
    responses = ResponseStore(database)
    _chain(responses, 3)
    with database.begin() as connection:
        gone = sa.delete(stored_responses).where(stored_responses.c.id == "resp_0")
        connection.execute(gone)
    with pytest.raises(InvalidRequestError, match="what resp_2 goes on from was deleted") as told:
        responses.said("resp_2", tenant=T)
    assert told.value.param == "previous_response_id"


@pytest.mark.anyio
async def test_what_nobody_uses_expires_and_kv_of_its_own_with_it(
    database: sa.Engine, store: ConversationStore, clock: Clock, tmp_path: Path
) -> None:
    embedder = HashingEmbedder()
    collections = Collections(database, tmp_path / "files", embedder, embedder.count_tokens)
    forgotten: list[str] = []
    salts = Salts(b"k" * 32)
    deletions = KvDeletions(database, salts, collections, None, forget=forgotten.append)
    responses = ResponseStore(database, now=clock)
    settings = ConversationsSettings(days=10, response_days=5)
    expiry = StoredExpiry(settings, store, responses, deletions, now=clock)
    old = made(store, "a")
    apart = store.create(tenant=T, metadata={}, isolated=True).id
    responses.keep(_response("resp_1", previous=None, at=clock.now))
    clock.now += 6 * DAY_S
    fresh = made(store, "b")
    await expiry.sweep()
    assert said(store, old) == ["a"]
    with pytest.raises(ResponseNotFoundError):
        responses.get("resp_1", tenant=T)
    clock.now += 5 * DAY_S
    await expiry.sweep()
    for gone in (old, apart):
        with pytest.raises(ConversationNotFoundError):
            store.get(gone, tenant=T)
    assert said(store, fresh) == ["b"]
    assert forgotten == [salts.of(T, apart)]
    with database.connect() as connection:
        rows = connection.execute(sa.select(conversation_items.c.conversation_id)).all()
        assert {row.conversation_id for row in rows} == {fresh}
        assert [row.salt for row in connection.execute(kv_deletions.select())] == forgotten
    # A tenant's deletion takes those of its conversations that are kept apart, too.
    another = store.create(tenant=T, metadata={}, isolated=True).id
    salt = salts.of(T, another)
    await anyio.lowlevel.checkpoint()
    await deletions.delete_tenant(T)
    assert salt in forgotten


def test_stored_ids_are_gone_on_with_as_the_model_gave_them(tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    spelled = [i for letter in "nine" for i in tokenizer.encoder.encode(letter).ids]
    answer = Message(role="assistant", content="nine")
    following = prompt(user("When?"), answer, user("Sure?"), answer, user("And back?"))
    for ids in ((packed(spelled), packed(spelled)), (None, packed(spelled))):
        resumed = Resumption(output_ids=ids, tokenizer=tokenizer.identity)
        known = resumed.answered(following, tokenizer)
        assert known is not None
        transcript = known.follow(tokenizer, following.messages)
        assert transcript is not None
        plain = tokenizer.tokenize(following).token_ids
        assert tokenizer.decode(transcript.token_ids) == tokenizer.decode(plain)
        extra = len(spelled) - len(tokenizer.encoder.encode("nine").ids)
        times = sum(each is not None for each in ids)
        assert len(transcript.token_ids) == len(plain) + times * extra
    unknown = Resumption(output_ids=(packed(spelled), None), tokenizer="another model")
    assert unknown.answered(following, tokenizer) is None
    assert Resumption().answered(following, tokenizer) is None


def test_compaction_is_due_by_share_and_cuts_before_a_users_message() -> None:
    half = Compaction(at=0.5, keep=0.2)
    assert [is_due(half, tokens, 100) for tokens in (None, 49, 50)] == [False, False, True]
    assert not is_due(None, 100, 100)
    users, models = (True, 10), (False, 10)
    assert cut_place([users, models] * 5, 40) == 6
    assert cut_place([users, models] * 5, 39) == 8
    assert cut_place([users, models] * 5, 1000) == 0  # all of it may stay
    assert cut_place([users, models] * 5, 0) == 10
    assert cut_place([], 40) == 0


def _response(response_id: str, *, previous: str | None, at: float = 0.0) -> StoredResponse:
    return StoredResponse(
        id=response_id,
        tenant=T,
        created_at=at,
        previous_id=previous,
        response={"output": [{"id": f"out_{response_id}"}]},
        input=[{"id": f"in_{response_id}"}],
        output_ids=packed([1, 2]),
        tokenizer="tok",
    )
