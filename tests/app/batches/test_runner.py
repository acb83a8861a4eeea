"""What works on batches, on a real database and real files; only the answers are made up."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.lowlevel
import orjson
import pytest
import sqlalchemy as sa

from app.batches import runner as batch_runner
from app.batches.files import BatchFiles
from app.batches.records import WINDOW_S, Batch, BatchStatus, LineAnswer
from app.batches.runner import BatchRunner
from app.batches.store import OWNED_S, BatchStore
from app.database import open_database
from app.settings import BatchesSettings, WebhooksSettings, WireSettings
from app.tables import batch_lines
from app.webhooks.opening import open_outbox
from retrieval import Collections, HashingEmbedder, PageQuery
from tests.app.batches.requests import CHAT, chat_line, line
from tests.postgres_server import PostgresServer

NOW = 1_800_000_000.0
RESPONSES = "/v1/responses"

pytestmark = pytest.mark.anyio


@dataclass
class Engine:
    """Answers by `reply`, which gets the request's text and how often it was asked."""

    reply: Callable[[str, int], LineAnswer] = lambda text, _: good(text)
    holds: anyio.Event | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def send(self, path: str, body: bytes, *, tenant: str) -> LineAnswer:
        given = orjson.loads(body)
        text = given["messages"][1]["content"] if path == CHAT else given["input"]
        self.asked.append((tenant, text))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.holds is not None:
                await self.holds.wait()
            await anyio.lowlevel.checkpoint()
            return self.reply(text, [each for _, each in self.asked].count(text))
        finally:
            self.at_once -= 1


@dataclass
class Place:
    """A gateway's database and files, its clock, and how many others use it."""

    database: sa.Engine
    collections: Collections
    store: BatchStore
    now: float = NOW
    others: int = 0
    asked_for_others: int = 0
    clock: Callable[[], float] = time.monotonic

    def batch(self, lines: list[bytes], *, tenant: str = "a", endpoint: str = CHAT) -> Batch:
        file = self.collections.save_file("r.jsonl", b"".join(lines), "batch", tenant=tenant)
        return self.store.create(
            tenant=tenant, endpoint=endpoint, input_file_id=file.id, metadata=None, now=self.now
        )

    def read(self, batch: Batch) -> tuple[list[str], list[str]]:
        """The custom ids in output and error file."""
        batch = self.store.get(batch.id, tenant=batch.tenant)
        ids: list[list[str]] = []
        for file_id in (batch.output_file_id, batch.error_file_id):
            data = self.collections.read_file(file_id, tenant=batch.tenant) if file_id else b""
            ids.append([orjson.loads(line)["custom_id"] for line in data.splitlines()])
        return ids[0], ids[1]

    def _others(self) -> int:
        self.asked_for_others += 1
        return self.others

    async def ended(self, batch: Batch) -> Batch:
        with anyio.fail_after(60):
            while True:
                found = self.store.get(batch.id, tenant=batch.tenant)
                if found.status not in ("validating", "in_progress", "cancelling"):
                    return found
                await anyio.sleep(0.01)

    @asynccontextmanager
    async def running(
        self, engine: Engine, *, owner: str = "here", **settings: int
    ) -> AsyncIterator[BatchRunner]:
        runner = BatchRunner(
            self.store,
            BatchFiles(self.collections),
            engine,
            settings=BatchesSettings.model_validate(settings),
            wire=WireSettings(),
            others=self._others,
            owner=owner,
            prefill_s=lambda tokens: tokens / 1000,
            now=lambda: self.now,
            clock=lambda: self.clock(),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.watch)
            yield runner
            tasks.cancel_scope.cancel()


@contextmanager
def opened(home: Path, url: str | None = None) -> Iterator[Place]:
    database = open_database(url or home / "foreword.db")
    embedder = HashingEmbedder()
    with closing(
        Collections(database, home / "retrieval", embedder, embedder.count_tokens)
    ) as collections:
        yield Place(
            database,
            collections,
            BatchStore(database, told=open_outbox(WebhooksSettings(), database)),
        )
    database.dispose()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with opened(tmp_path) as made:
        yield made


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - it is in a database
            await anyio.sleep(0.002)


def good(text: str) -> LineAnswer:
    return LineAnswer(status=200, request_id="r", body=orjson.dumps({"said": text}))


def refusal(status: int, retry_after_s: float | None = None) -> LineAnswer:
    body = b'{"error": {}}'
    return LineAnswer(status=status, request_id="r", body=body, retry_after_s=retry_after_s)


def lines_of(count: int, system: str = "Be brief.") -> list[bytes]:
    return [chat_line(f"q-{n}", f"{n}", system=system) for n in range(count)]


async def test_all_that_was_done_before_a_crash_is_not_done_again(
    place: Place, tmp_path: Path
) -> None:
    """The first gateway dies with some lines answered, and some under way."""
    batch = place.batch(lines_of(30))
    first = Engine()
    async with place.running(first, concurrent=4):
        await until(lambda: place.store.get(batch.id, tenant="a").completed >= 10)
        first.holds = anyio.Event()
        await until(lambda: first.at_once == 4)
    kept = place.store.get(batch.id, tenant="a").completed
    again = Engine()
    async with place.running(again):
        await place.ended(batch)
    assert len(again.asked) == 30 - kept
    assert place.read(batch) == ([f"q-{n}" for n in range(30)], [])
    with place.database.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(batch_lines)) == 0


@pytest.mark.slow
async def test_postgresql_keeps_it_all_the_same(postgres: PostgresServer, tmp_path: Path) -> None:
    replies = {"0": refusal(400)}
    with opened(tmp_path, postgres.create_database()) as place:
        batch = place.batch(lines_of(100))
        other = place.batch(lines_of(5), tenant="b")
        async with place.running(Engine(reply=lambda text, _: replies.get(text, good(text)))):
            ended = await place.ended(batch)
            await place.ended(other)
        assert (ended.status, ended.completed, ended.failed) == (BatchStatus.COMPLETED, 99, 1)
        assert place.read(batch) == ([f"q-{n}" for n in range(1, 100)], ["q-0"])
        page = place.store.page(PageQuery(limit=1), tenant="a")
        assert [found.id for found in page.items] == [batch.id]
        assert not page.has_more


async def test_lines_share_prefixes_one_after_the_other_and_the_first_goes_alone(
    place: Place,
) -> None:
    systems = ["A" * 400, "B" * 400]
    lines = [chat_line(f"{n}", f"{n % 2}-{n:02}", system=systems[n % 2]) for n in range(20)]
    engine = Engine(holds=anyio.Event())
    batch = place.batch(lines)
    async with place.running(engine, concurrent=8):
        await until(lambda: bool(engine.asked))
        await anyio.sleep(0.1)
        assert len(engine.asked) == 1, "the others would compute the same meanwhile"
        assert engine.holds is not None
        engine.holds.set()
        await place.ended(batch)
    told = [text[0] for _, text in engine.asked]
    assert told == sorted(told)
    assert engine.most_at_once == 8


async def test_beside_others_it_holds_back(place: Place) -> None:
    place.others = 3
    engine = Engine()
    batch = place.batch(lines_of(12))
    async with place.running(engine, concurrent=8, beside=1):
        await place.ended(batch)
    assert engine.most_at_once == 1


async def test_beside_nothing_it_waits_until_others_are_gone(place: Place) -> None:
    place.others = 1
    engine = Engine()
    batch = place.batch(lines_of(3))
    async with place.running(engine, beside=0):
        await anyio.sleep(0.5)
        assert engine.asked == []
        place.others = 0
        await place.ended(batch)
    assert len(engine.asked) == 3


async def test_tenants_take_turns(place: Place) -> None:
    big = place.batch(lines_of(200), tenant="a")
    small = place.batch(lines_of(40), tenant="b")
    engine = Engine()
    async with place.running(engine, concurrent=2):
        await place.ended(small)
        await place.ended(big)
    before_last_of_b = [t for t, _ in engine.asked][: _last(engine.asked, "b")]
    assert before_last_of_b.count("a") <= 3 * 32


def _last(asked: list[tuple[str, str]], tenant: str) -> int:
    return max(at for at, (whose, _) in enumerate(asked) if whose == tenant)


async def test_what_is_only_for_now_is_tried_again_and_what_stands_is_told(place: Place) -> None:
    replies = {
        "0": [refusal(503), good("0")],
        "1": [refusal(400)],
        "2": [refusal(429, 1.0), good("2")],
        "3": [refusal(429)],
    }
    batch = place.batch(lines_of(4))
    engine = Engine(reply=lambda text, count: replies[text][count - 1])
    async with place.running(engine):
        ended = await place.ended(batch)
    assert (ended.completed, ended.failed) == (2, 2)
    assert place.read(batch) == (["q-0", "q-2"], ["q-1", "q-3"])


def _turns(talk: str, count: int) -> list[bytes]:
    texts = [f"{talk} {n:03}" for n in range(count)]
    return [
        line(text, RESPONSES, {"model": "default", "input": text, "conversation": talk})
        for text in texts
    ]


async def test_a_conversations_turns_go_one_at_a_time_and_others_beside_them(place: Place) -> None:
    """More of one than are read at a time: the other one's are looked for behind them."""
    most: dict[str, int] = {}
    held = anyio.Event()

    class Counting(Engine):
        now: ClassVar[list[str]] = []

        async def send(self, path: str, body: bytes, *, tenant: str) -> LineAnswer:
            talk = orjson.loads(body)["conversation"]
            self.now.append(talk)
            most[talk] = max(most.get(talk, 0), self.now.count(talk))
            if len(set(self.now)) == 2:
                held.set()
            try:
                await held.wait()
                return await super().send(path, body, tenant=tenant)
            finally:
                self.now.remove(talk)

    engine = Counting()
    batch = place.batch(_turns("one", 200) + _turns("two", 5), endpoint=RESPONSES)
    async with place.running(engine):
        ended = await place.ended(batch)
    assert (ended.completed, ended.failed) == (205, 0)
    assert most == {"one": 1, "two": 1}
    for talk in most:
        texts = [text for _, text in engine.asked if text.startswith(talk)]
        assert texts == sorted(texts)


async def test_a_conversation_that_somebody_has_is_waited_for_and_only_it(place: Place) -> None:
    """However often, and other faults of the engine are still tried three times after that."""
    replies = {"one 000": [*[refusal(409, 1.0)] * 5, *[refusal(502)] * 2]}

    def reply(text: str, count: int) -> LineAnswer:
        return (replies.get(text, [])[count - 1 : count] or [good(text)])[0]

    engine, ticks = Engine(reply=reply), itertools.count(0.0, 0.5)
    place.clock = lambda: next(ticks)
    batch = place.batch(_turns("one", 2) + _turns("two", 3), endpoint=RESPONSES)
    async with place.running(engine):
        ended = await place.ended(batch)
    assert (ended.completed, ended.failed) == (5, 0)
    asked = [text for _, text in engine.asked]
    assert asked.index("two 002") < len(asked) - 3
    assert asked[-1] == "one 001"


async def test_a_conflict_that_does_not_pass_stands(place: Place) -> None:
    batch = place.batch(_turns("one", 1), endpoint=RESPONSES)
    async with place.running(Engine(reply=lambda *_: refusal(409))):
        ended = await place.ended(batch)
    assert (ended.completed, ended.failed) == (0, 1)


async def test_when_its_window_ends_every_line_is_accounted_for(place: Place) -> None:
    batch = place.batch(lines_of(10))
    place.others = 1
    engine = Engine(reply=lambda text, _: good(text) if text != "5" else refusal(503, 30))
    async with place.running(engine):
        await until(lambda: ("a", "5") in engine.asked)
        place.now += WINDOW_S
        ended = await place.ended(batch)
    assert ended.status is BatchStatus.EXPIRED
    output, errors = place.read(batch)
    assert sorted(output + errors) == sorted(f"q-{n}" for n in range(10))
    assert "q-5" in errors
    assert ended.times["expired"] == int(place.now)


async def test_a_cancelled_batch_sends_nothing_more(place: Place) -> None:
    engine = Engine(holds=anyio.Event())
    batch = place.batch(lines_of(20))
    async with place.running(engine, concurrent=2) as runner:
        await until(lambda: engine.at_once == 2)
        place.store.cancel(batch.id, tenant="a", now=place.now)
        runner.wake()
        await anyio.sleep(0.1)
        assert engine.holds is not None
        engine.holds.set()
        ended = await place.ended(batch)
    assert ended.status is BatchStatus.CANCELLED
    assert len(engine.asked) == 2
    output, errors = place.read(batch)
    assert (len(output), len(errors)) == (ended.completed, ended.failed) == (2, 18)


async def test_a_file_deleted_before_it_was_read_fails_its_batch(place: Place) -> None:
    batch = place.batch(lines_of(2))
    place.collections.delete_file(batch.input_file_id, tenant="a")
    async with place.running(Engine()):
        ended = await place.ended(batch)
    assert ended.status is BatchStatus.FAILED
    assert ended.problems[0]["code"] == "file_not_found"


async def test_another_gateway_takes_over_only_what_is_given_up(place: Place) -> None:
    batch = place.batch(lines_of(2))
    assert [b.id for b in place.store.claim("one", NOW)] == [batch.id]
    assert place.store.claim("two", NOW + 1) == []
    assert [b.id for b in place.store.claim("one", NOW + 1)] == [batch.id]
    assert [b.id for b in place.store.claim("two", NOW + OWNED_S + 1)] == [batch.id]
    assert place.store.claim("one", NOW + OWNED_S + 2) == []


async def test_what_another_gateway_leaves_is_found_by_one_that_rests(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody wakes it."""
    monkeypatch.setattr(batch_runner, "IDLE_LOOK_S", 0.05)
    batch = place.batch(lines_of(2))
    assert [b.id for b in place.store.claim("dead", place.now)] == [batch.id]
    engine = Engine()
    with looks(place.database) as seen:
        async with place.running(engine):
            await until(lambda: len(seen) > 2)
            assert engine.asked == []
            place.now += OWNED_S + 1
            await place.ended(batch)
    assert len(engine.asked) == 2


async def test_work_is_begun_and_stopped_while_it_rests(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would see it in an hour, were it not told."""
    monkeypatch.setattr(batch_runner, "IDLE_LOOK_S", 3600.0)
    engine = Engine(holds=anyio.Event())
    with looks(place.database) as seen:
        async with place.running(engine, concurrent=1) as runner:
            await until(lambda: len(seen) == 1)
            batch = place.batch(lines_of(5))
            runner.wake()
            await until(lambda: engine.at_once == 1)
            # As another gateway notes it: this one isn't told, and looks while it works.
            place.store.cancel(batch.id, tenant="a", now=place.now)
            before = len(seen)
            await until(lambda: len(seen) > before)
            assert engine.holds is not None
            engine.holds.set()
            assert (await place.ended(batch)).status is BatchStatus.CANCELLED
    assert len(engine.asked) == 1


@contextmanager
def looks(database: sa.Engine) -> Iterator[list[str]]:
    """The statements by which it is looked for batches, as they come."""
    seen: list[str] = []

    def note(_connection: sa.Connection, _: object, statement: str, *_more: object) -> None:
        if statement.startswith("SELECT count(*)") and "FROM batches" in statement:
            seen.append(statement)

    sa.event.listen(database, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        sa.event.remove(database, "before_cursor_execute", note)


async def test_only_the_first_answer_to_a_line_is_kept(place: Place) -> None:
    batch = place.batch(lines_of(2))
    async with place.running(Engine(holds=anyio.Event())):
        await until(lambda: place.store.get(batch.id, tenant="a").status == "in_progress")
    for result in (b"first\n", b"second\n"):
        place.store.keep(batch.id, 0, result, succeeded=True)
    assert place.store.get(batch.id, tenant="a").completed == 1
    first = next(place.store.results(batch.id, BatchStatus.EXPIRED))
    assert (first.line, first.succeeded) == (b"first\n", True)


async def test_long_prompts_are_seldom_beside_others(place: Place) -> None:
    """Two beginnings of 3 s of prefill each, whose other lines cost nothing."""

    def reply(text: str, _: int) -> LineAnswer:
        cached = 0 if text in ("0", "10") else 3000
        usage = {"prompt_tokens": 3010, "prompt_tokens_details": {"cached_tokens": cached}}
        return LineAnswer(status=200, request_id="r", body=orjson.dumps({"usage": usage}))

    seconds = [1000.0]
    place.clock, place.others = lambda: seconds[0], 1
    lines = [
        chat_line(f"q-{n}", f"{n}", system=f"{'Be brief.' if n < 10 else 'Be wordy.'} " * 100)
        for n in range(20)
    ]
    batch, engine = place.batch(lines), Engine(reply=reply)
    async with place.running(engine, beside=1) as runner:
        await until(lambda: len(engine.asked) == 10)
        for _ in range(5):
            seen = place.asked_for_others
            runner.wake()
            await until(lambda seen=seen: place.asked_for_others > seen)  # type: ignore[misc]
        assert len(engine.asked) == 10, "the next beginning waits"
        seconds[0] += 1000
        runner.wake()
        await place.ended(batch)
    assert len(engine.asked) == 20
