"""Every route while the database is gone, locked or full: an answer, or 503 in OpenAI's error.

None is a 500, none says more than one sentence, and nothing that needs no database suffers.
"""

import json
import re
import resource
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from app.settings import DatabaseSettings, Settings
from bench.engine_sim import SimulatorThread
from tests.gateways import gateway_settings, running_gateway, served_routes, wait_until_ready
from tests.postgres_server import running_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Route = tuple[str, str]

_CHAT = {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
_BODIES: Mapping[Route, Mapping[str, Any]] = {
    ("POST", "/v1/chat/completions"): {"json": _CHAT},
    ("POST", "/v1/completions"): {"json": {"model": "default", "prompt": "Hi", "max_tokens": 2}},
    ("POST", "/v1/responses"): {"json": {"model": "default", "input": "Hi"}},
    ("POST", "/v1/embeddings"): {"json": {"model": "default", "input": "Hi"}},
    ("POST", "/v1/files"): {
        "files": {"file": ("y.txt", b"y")},
        "data": {"purpose": "assistants"},
    },
    ("POST", "/v1/vector_stores"): {"json": {"name": "another"}},
    ("POST", "/v1/vector_stores/{store_id}"): {"json": {"name": "renamed"}},
    ("POST", "/v1/vector_stores/{store_id}/search"): {"json": {"query": "number"}},
    ("POST", "/v1/vector_stores/{store_id}/files"): {"json": {"file_id": "FILE"}},
    ("POST", "/v1/vector_stores/{store_id}/files/{file_id}"): {"json": {"attributes": {}}},
    ("POST", "/v1/vector_stores/{store_id}/file_batches"): {"json": {"file_ids": ["FILE"]}},
    ("POST", "/v1/batches"): {
        "json": {
            "input_file_id": "FILE",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        }
    },
    ("POST", "/foreword/collections/{name}/sync"): {"files": {"file": ("z.txt", b"z")}},
    ("PUT", "/foreword/plan/quality/{collection}"): {
        "json": {"metric": "token_f1", "revision": 1, "model": "m", "scores": {"rag": [1.0]}}
    },
    ("POST", "/foreword/keys"): {"json": {"tenant": "new"}},
    ("POST", "/foreword/agents/runs/{run_id}/decide"): {
        "json": {"call_id": "call_0", "action": "retry"}
    },
    ("POST", "/foreword/keys/{key_id}/rotate"): {"json": {}},
    ("PUT", "/foreword/tenants/{tenant}/limits"): {"json": {"requests_per_min": 1}},
    ("POST", "/foreword/replicas"): {"json": {"url": "http://127.0.0.1:9"}},
}
# They need no database, or know from before what they need of it.
_UNHURT = {
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("GET", "/foreword/templates"),
    ("GET", "/foreword/templates/{reference}"),
    ("GET", "/ui/{path}"),
    ("GET", "/foreword/replicas"),
    ("GET", "/foreword/shadow"),
    ("GET", "/foreword/limits"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
}
_READS = {
    ("GET", "/v1/files"),
    ("GET", "/v1/files/{file_id}"),
    ("GET", "/v1/vector_stores"),
    ("GET", "/v1/vector_stores/{store_id}"),
    ("GET", "/v1/vector_stores/{store_id}/files"),
    ("POST", "/v1/vector_stores/{store_id}/search"),
    ("GET", "/foreword/collections"),
    ("GET", "/foreword/keys"),
    ("GET", "/foreword/audit"),
    ("GET", "/foreword/report"),
    ("GET", "/foreword/explain/{request_id}"),
}
_WRITES = {
    ("POST", "/v1/files"),
    ("DELETE", "/v1/files/{file_id}"),
    ("POST", "/v1/vector_stores"),
    ("POST", "/v1/vector_stores/{store_id}"),
    ("DELETE", "/v1/vector_stores/{store_id}"),
    ("POST", "/foreword/collections/{name}/sync"),
    ("POST", "/foreword/keys"),
    ("POST", "/foreword/keys/{key_id}/rotate"),
    ("DELETE", "/foreword/keys/{key_id}"),
    ("PUT", "/foreword/tenants/{tenant}/limits"),
    ("DELETE", "/foreword/tenants/{tenant}/kv"),
    ("POST", "/foreword/replicas"),
    ("POST", "/foreword/replicas/{name}/cordon"),
    ("DELETE", "/foreword/replicas/{name}"),
}
# One waits for the other, ten seconds each, as long as SQLite waits for a lock.
_TURN_BY_TURN = frozenset(
    route for route in served_routes() if route[1].startswith("/foreword/replicas/")
)


@dataclass(frozen=True)
class Deployment:
    """A gateway with an admin's key, and one of each thing that a path may name."""

    url: str
    key: str
    ids: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.request(
            method, f"{self.url}{path}", headers=headers, trust_env=False, timeout=120, **more
        )

    def ask_all(self, but: frozenset[Route] = frozenset()) -> dict[Route, httpx.Response]:
        """All routes, many at a time."""
        routes = sorted(served_routes() - but)
        with ThreadPoolExecutor(12) as pool:
            return dict(zip(routes, pool.map(self._ask, routes), strict=True))

    def _ask(self, route: Route) -> httpx.Response:
        path = re.sub(r"\{(\w+)\}", lambda match: self._named(route[1], match[1]), route[1])
        more = dict(_BODIES.get(route, {}))
        if "json" in more:
            more["json"] = json.loads(json.dumps(more["json"]).replace("FILE", self.ids["file_id"]))
        return self.ask(route[0], path, **more)

    def _named(self, path: str, variable: str) -> str:
        if variable == "name":
            named = {"replicas": "engine-0", "collections": "vault", "models": "default"}
            return named[path.split("/")[2]]
        return self.ids[variable]


@contextmanager
def deployed(settings: Settings) -> Iterator[Deployment]:
    url = settings.database.url
    with open_store(settings.home, url.get_secret_value() if url else None) as store:
        key = store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR).key
        other = store.create(NewKey(tenant="a"), by=OPERATOR).record.id
    with running_gateway(settings) as at:
        wait_until_ready(at)
        it = Deployment(at, key)
        upload = {"file": ("x.txt", b"The vault opens with the number 4711.")}
        file = it.ask("POST", "/v1/files", files=upload, data={"purpose": "assistants"}).json()
        body = {"name": "vault", "file_ids": [file["id"]]}
        store_id = it.ask("POST", "/v1/vector_stores", json=body).json()["id"]
        asked = it.ask("POST", "/v1/chat/completions", json=_CHAT).json()["id"]
        it.ids.update(file_id=file["id"], store_id=store_id, request_id=asked, key_id=other)
        it.ids.update(collection="vault", tenant="a", batch_id="vsfb_0", response_id="resp_0")
        it.ids.update(conversation_id="conv_0", item_id="msg_0")
        it.ids.update(batch="batch_0", reference="chat@1", path="main.js", run_id="run_0")
        deadline = time.monotonic() + 30
        while not it.ask("GET", f"/v1/vector_stores/{store_id}").json()["file_counts"]["completed"]:
            assert time.monotonic() < deadline, "the document was not taken in"
            time.sleep(0.05)
        assert it.ask("GET", f"/foreword/explain/{asked}").status_code == 200
        yield it


def check_manners(answers: Mapping[Route, httpx.Response]) -> None:
    """No answer is a 500 or a page of words; who may come again is told when."""
    for route, answer in answers.items():
        if answer.status_code < 500:
            continue
        where = f"{route}: {answer.status_code} {answer.text}"
        error = answer.json()["error"]
        assert error["type"] == "server_error", where
        assert (answer.status_code, error["code"]) in (
            (503, "database_unavailable"),
            (503, "storage_unavailable"),
            (507, "storage_refused"),
        ), where
        assert answer.status_code == 507 or int(answer.headers["retry-after"]) >= 1, where
        assert len(error["message"]) < 200, where
        assert not re.search(r"\n|sqlalche|psycopg|SELECT|INSERT|foreword-pg", error["message"]), (
            where
        )


def statuses(answers: Mapping[Route, httpx.Response], routes: set[Route]) -> dict[Route, int]:
    return {route: answers[route].status_code for route in sorted(routes)}


def test_every_route_answers_while_postgresql_is_killed_and_all_work_again_afterwards(
    simulator: SimulatorThread, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_postgres() as server:
        database = DatabaseSettings(url=SecretStr(server.create_database()))
        settings = gateway_settings(tmp_path, simulator.url)
        with deployed(settings.model_copy(update={"database": database})) as it:
            server.stop(number=signal.SIGQUIT)
            answers = it.ask_all()
            server.start()
            again = it.ask("POST", "/foreword/keys", json={"tenant": "new"})
            files = it.ask("GET", f"/v1/files/{it.ids['file_id']}")
    check_manners(answers)
    assert set(statuses(answers, _UNHURT).values()) == {200}
    assert set(statuses(answers, _READS | _WRITES).values()) == {503}
    assert (again.status_code, files.status_code) == (200, 200)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_every_route_answers_while_the_file_is_locked(
    simulator: SimulatorThread, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with deployed(gateway_settings(tmp_path, simulator.url)) as it:
        with closing(sqlite3.connect(tmp_path / "foreword.db", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            answers = it.ask_all(but=_TURN_BY_TURN)
        assert it.ask("GET", f"/v1/vector_stores/{it.ids['store_id']}").status_code == 200
    check_manners(answers)
    assert set(statuses(answers, _UNHURT).values()) == {200}
    assert set(statuses(answers, _READS).values()) == {200}
    assert set(statuses(answers, _WRITES - _TURN_BY_TURN).values()) == {503}
    assert "Traceback" not in "".join(capfd.readouterr())


def test_every_route_answers_while_nothing_can_be_written(
    simulator: SimulatorThread, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with deployed(gateway_settings(tmp_path, simulator.url)) as it:
        with no_large_files():
            answers = it.ask_all()
        assert it.ask("POST", "/foreword/keys", json={"tenant": "new"}).status_code == 200
    check_manners(answers)
    assert set(statuses(answers, _UNHURT).values()) == {200}
    assert set(statuses(answers, _READS).values()) == {200}
    assert set(statuses(answers, _WRITES).values()) <= {503, 507}
    assert "Traceback" not in "".join(capfd.readouterr())


@contextmanager
def no_large_files() -> Iterator[None]:
    """The kernel refuses this process, the gateway in it too, files of more than a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
