"""What goes on with runs that were left, and keeps those alive that are worked on: at rest, too."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.agents import watch
from app.agents.loop import RunStatus
from app.agents.records import RunRecord
from app.agents.store import RunStore
from app.callers import LOCAL_TENANT
from app.database import open_database
from app.responses.background.store import BackgroundStore
from app.settings import WebhooksSettings
from app.tables import agent_runs
from app.webhooks.opening import open_outbox
from tests.app.agents.conftest import Harbour, Opens
from tests.app.agents.notes import calls
from tests.app.agents.test_background import begin, until_run
from tests.app.agents.test_runs import PATIENCE_S, ask, until_ended, until_written

RUN = "/foreword/agents/runs/{}"


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that is idle sees by itself in an hour only what others have left."""
    monkeypatch.setattr(watch, "IDLE_LOOK_S", 3600.0)


@contextmanager
def opened(home: Path) -> Iterator[sa.Engine]:
    """The gateway's database, as another gateway has it open."""
    database = open_database(home / "home" / "foreword.db")
    yield database
    database.dispose()


def left(run_id: str) -> RunRecord:
    """A run of which nothing was done yet."""
    return RunRecord(
        id=run_id,
        tenant=LOCAL_TENANT,
        agent="writer",
        created_at=time.time(),
        request={"model": "agent:writer", "input": "Write.", "store": True},
        input=[{"type": "message", "role": "user", "content": "Write."}],
    )


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.usefixtures("resting")
def test_a_run_that_is_begun_while_it_rests_is_kept_alive(harbour: Opens, tmp_path: Path) -> None:
    with harbour((calls(("write", "stay")),)) as here, opened(tmp_path) as database:

        def owned_until() -> float:
            with database.connect() as connection:
                return connection.scalar(sa.select(agent_runs.c.owned_until)) or 0.0

        with ask(here, stream=True) as stream:
            run_id = next(iter(stream)).response.id
            until_written(here, 1)  # nothing is written down any more by the run itself
            for _ in range(3):
                before = owned_until()
                until(lambda before=before: owned_until() > before)  # type: ignore[misc]
            # Noted as by another gateway: nobody here is told.
            RunStore(database, owner="there", lease_s=1.0).cancel(run_id, tenant=LOCAL_TENANT)
            last = list(stream)[-1]
    assert (last.type, last.response.status) == ("response.incomplete", "cancelled")


@pytest.mark.usefixtures("resting")
def test_a_run_is_gone_on_with_when_the_lease_of_its_gateway_ends(
    harbour: Opens, tmp_path: Path
) -> None:
    with opened(tmp_path) as database:
        RunStore(database, owner="dead", lease_s=5.0).begin(left("resp_left"))
        with harbour(()) as here:
            run = until_ended(here, "resp_left", RUN)
    assert run["status"] == RunStatus.COMPLETED


def test_what_another_gateway_gives_up_is_found_by_one_that_rests(
    harbour: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "IDLE_LOOK_S", 0.1)
    with harbour(()) as here, opened(tmp_path) as database:
        there = RunStore(database, owner="there", lease_s=3600.0)
        there.begin(left("resp_left"))
        there.let_go("resp_left")
        run = until_ended(here, "resp_left", RUN)
    assert run["status"] == RunStatus.COMPLETED


@pytest.mark.usefixtures("resting")
def test_a_decision_is_followed_at_once(harbour: Opens) -> None:
    with harbour((calls(("write", "vanish")),)) as here:
        answer = ask(here)
        [waiting] = answer.foreword["agent"]["waiting"]
        decision = {"call_id": waiting["call_id"], "action": "skip", "output": "It is written."}
        path = f"{RUN.format(answer.id)}/decide"
        here.http.post(path, json=decision).raise_for_status()
        assert until_ended(here, answer.id)["status"] == "completed"


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize("line", ["stay", "vanish"])
@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_a_response_that_is_stopped_gives_its_conversation_free(
    harbour: Opens, line: str, how: str
) -> None:
    """Whether its run is worked on, or waits for somebody to decide."""
    with harbour((calls(("write", line)),)) as here:
        talk = here.client.conversations.create()
        queued = begin(here, conversation=talk.id)
        until_written(here, 1)
        if line == "vanish":
            until_run(here, RUN.format(queued.id), "interrupted")
        getattr(here.client.responses, how)(queued.id)
        until(lambda: is_free(here, talk.id))


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize("line", ["stay", "vanish"])
def test_it_does_so_too_where_another_gateway_was_asked(
    harbour: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """Only who makes the response sees it, however seldom is looked after runs."""
    monkeypatch.setattr(watch, "_LOOK_S", 3600.0)
    monkeypatch.setattr(watch, "_WORDS", 1 / 3600)
    with harbour((calls(("write", line)),)) as here, opened(tmp_path) as database:
        talk = here.client.conversations.create()
        queued = begin(here, conversation=talk.id)
        until_written(here, 1)
        if line == "vanish":
            until_run(here, RUN.format(queued.id), "interrupted")
        there = BackgroundStore(database, told=open_outbox(WebhooksSettings(), database))
        there.cancel(queued.id, tenant=LOCAL_TENANT, now=time.time())
        until(lambda: is_free(here, talk.id))


@pytest.mark.usefixtures("resting")
@pytest.mark.parametrize("how", ["cancel", "delete"])
def test_it_does_so_too_where_nobody_where_nobody_makes_it(
    harbour: Opens, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It waited for a decision when its gateway stopped; the next one makes no responses."""
    with harbour((calls(("write", "vanish")),)) as here:
        talk = here.client.conversations.create()
        queued = begin(here, conversation=talk.id)
        until_run(here, RUN.format(queued.id), "interrupted")
    monkeypatch.setenv("FOREWORD_BACKGROUND__CONCURRENT", "0")
    with harbour(()) as here:
        assert not is_free(here, talk.id)
        getattr(here.client.responses, how)(queued.id)
        until(lambda: is_free(here, talk.id))


def is_free(harbour: Harbour, conversation_id: str) -> bool:
    items = [{"type": "message", "role": "user", "content": "Hello?"}]
    path = f"/v1/conversations/{conversation_id}/items"
    return harbour.http.post(path, json={"items": items}).status_code == 200
