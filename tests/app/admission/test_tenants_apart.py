"""Over HTTP, on every route: a key of one tenant neither sees nor touches what another has."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role
from bench.engine_sim import SimulatorThread
from tests.gateways import (
    gateway_settings,
    running_gateway,
    served_routes,
    wait_until_ready,
)

SECRET_TEXT = "The vault of Ashgrove opens with the number 4711."


@dataclass(frozen=True)
class Deployment:
    """A gateway with keys, and what tenant `a` has in it."""

    url: str
    keys: dict[str, str]
    ids: dict[str, str]

    def ask(self, who: str | None, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[who]}"} if who else {}
        headers |= more.pop("headers", {})
        return httpx.request(
            method, f"{self.url}{path}", headers=headers, trust_env=False, timeout=60, **more
        )


@pytest.fixture(scope="module")
def deployment(
    simulator: SimulatorThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("keys")
    keys = _make_keys(home)
    with running_gateway(gateway_settings(home, simulator.url)) as url:
        wait_until_ready(url)
        made = Deployment(url, keys, {})
        made.ids.update(_fill(made))
        yield made


def _make_keys(home: Path) -> dict[str, str]:
    with open_store(home, None) as store:
        admin = store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR).key
        users = {t: store.create(NewKey(tenant=t), by=OPERATOR).key for t in ("a", "b")}
        monitor = store.create(NewKey(tenant="ops", role=Role.MONITOR), by=OPERATOR).key
    return {"admin": admin, "monitor": monitor, **users}


def _fill(it: Deployment) -> dict[str, str]:
    """Everything that a tenant can have, for tenant `a`."""
    upload = {"file": ("secret.txt", SECRET_TEXT.encode())}
    file = it.ask("a", "POST", "/v1/files", files=upload, data={"purpose": "assistants"}).json()
    body = {"name": "vault", "file_ids": [file["id"]]}
    store = it.ask("a", "POST", "/v1/vector_stores", json=body).json()
    batch = it.ask(
        "a",
        "POST",
        f"/v1/vector_stores/{store['id']}/file_batches",
        json={"file_ids": [file["id"]]},
    ).json()
    deadline = time.monotonic() + 30
    path = f"/v1/vector_stores/{store['id']}"
    while it.ask("a", "GET", path).json()["file_counts"]["completed"] == 0:
        assert time.monotonic() < deadline, "the document was not taken in"
        time.sleep(0.05)
    chat = {
        "model": "default",
        "messages": [{"role": "user", "content": "Which number?"}],
        "max_tokens": 4,
        "foreword": {"collection": "vault", "mode": "rag"},
    }
    lines = b'{"custom_id": "vault", "method": "POST"}'
    upload = {"file": ("vault.jsonl", lines)}
    asked = it.ask("a", "POST", "/v1/files", files=upload, data={"purpose": "batch"}).json()
    wanted = {"input_file_id": asked["id"], "endpoint": "/v1/chat/completions"}
    wanted |= {"completion_window": "24h"}
    requests = it.ask("a", "POST", "/v1/batches", json=wanted).json()
    answer = it.ask("a", "POST", "/v1/chat/completions", json=chat)
    assert answer.status_code == 200, answer.text
    talk = it.ask("a", "POST", "/v1/conversations", json={"metadata": {"of": "vault"}}).json()
    said = {"model": "default", "input": "Is it 4711?", "conversation": talk["id"]}
    response = it.ask("a", "POST", "/v1/responses", json=said | {"max_output_tokens": 4}).json()
    run = {"model": "default", "input": "Which number?", "max_output_tokens": 4}
    run["foreword"] = {"agent": "researcher", "collection": "vault"}
    made = it.ask("a", "POST", "/v1/responses", json=run)
    assert made.status_code == 200, made.text
    runs = it.ask("a", "GET", "/foreword/agents/runs").json()["data"]
    return {
        "run_id": runs[0]["id"],
        "file_id": file["id"],
        "store_id": store["id"],
        "batch_id": batch["id"],
        "batch": requests["id"],
        "request_id": answer.json()["id"],
        "name": "vault",
        "collection": "vault",
        "tenant": "a",
        "key_id": "key_0",
        "response_id": response["id"],
        "conversation_id": talk["id"],
        "item_id": response["output"][0]["id"],
        "reference": "chat@1",
        "path": "main.js",
    }


# What each route that is about one tenant's things says to another tenant: as if they weren't.
_ABSENT = {
    ("GET", "/v1/files/{file_id}"),
    ("GET", "/v1/files/{file_id}/content"),
    ("DELETE", "/v1/files/{file_id}"),
    ("GET", "/v1/vector_stores/{store_id}"),
    ("POST", "/v1/vector_stores/{store_id}"),
    ("DELETE", "/v1/vector_stores/{store_id}"),
    ("POST", "/v1/vector_stores/{store_id}/search"),
    ("POST", "/v1/vector_stores/{store_id}/files"),
    ("GET", "/v1/vector_stores/{store_id}/files"),
    ("GET", "/v1/vector_stores/{store_id}/files/{file_id}"),
    ("POST", "/v1/vector_stores/{store_id}/files/{file_id}"),
    ("GET", "/v1/vector_stores/{store_id}/files/{file_id}/content"),
    ("DELETE", "/v1/vector_stores/{store_id}/files/{file_id}"),
    ("POST", "/v1/vector_stores/{store_id}/file_batches"),
    ("GET", "/v1/vector_stores/{store_id}/file_batches/{batch_id}"),
    ("POST", "/v1/vector_stores/{store_id}/file_batches/{batch_id}/cancel"),
    ("GET", "/v1/vector_stores/{store_id}/file_batches/{batch_id}/files"),
    ("GET", "/v1/batches/{batch}"),
    ("POST", "/v1/batches/{batch}/cancel"),
    ("POST", "/v1/batches"),
    ("GET", "/foreword/collections/{name}"),
    ("POST", "/foreword/collections/{name}/warm"),
    ("POST", "/foreword/collections/{name}/sync"),
    ("PUT", "/foreword/plan/quality/{collection}"),
    ("GET", "/foreword/explain/{request_id}"),
    ("GET", "/v1/responses/{response_id}"),
    ("DELETE", "/v1/responses/{response_id}"),
    ("GET", "/v1/responses/{response_id}/input_items"),
    ("GET", "/v1/conversations/{conversation_id}"),
    ("POST", "/v1/conversations/{conversation_id}"),
    ("DELETE", "/v1/conversations/{conversation_id}"),
    ("GET", "/v1/conversations/{conversation_id}/items"),
    ("POST", "/v1/conversations/{conversation_id}/items"),
    ("GET", "/v1/conversations/{conversation_id}/items/{item_id}"),
    ("DELETE", "/v1/conversations/{conversation_id}/items/{item_id}"),
    ("POST", "/foreword/conversations/{conversation_id}/fork"),
    ("POST", "/v1/responses/{response_id}/cancel"),
    ("GET", "/foreword/agents/runs/{run_id}"),
    ("POST", "/foreword/agents/runs/{run_id}/decide"),
    ("POST", "/foreword/agents/runs/{run_id}/cancel"),
}
_LISTS = {
    ("GET", "/foreword/agents/runs"),
    ("GET", "/foreword/response-cache"),
    ("GET", "/foreword/conversations"),
    ("GET", "/v1/files"),
    ("GET", "/v1/vector_stores"),
    ("GET", "/v1/batches"),
    ("GET", "/foreword/collections"),
    ("GET", "/foreword/report"),
    ("GET", "/foreword/plan"),
    ("GET", "/foreword/limits"),
}
_FOR_OPERATORS = re.compile("/foreword/(keys|audit|replicas|shadow|tenants|templates/)|/metrics")
# They are about nobody's things, or only about what is sent.
_OF_NOBODY = {
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("GET", "/"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1/conversations"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/files"),
    ("POST", "/v1/vector_stores"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
    ("GET", "/foreword/templates"),
    ("GET", "/foreword/agents"),
    ("DELETE", "/foreword/response-cache"),
    ("GET", "/ui"),
    ("GET", "/ui/{path}"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
}
_BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v1/vector_stores/{store_id}"): {"json": {"name": "taken"}},
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
    ("POST", "/v1/conversations/{conversation_id}"): {"json": {"metadata": {}}},
    ("POST", "/v1/conversations/{conversation_id}/items"): {
        "json": {"items": [{"role": "user", "content": "x"}]}
    },
    ("POST", "/foreword/conversations/{conversation_id}/fork"): {"json": {}},
    ("POST", "/foreword/agents/runs/{run_id}/decide"): {
        "json": {"call_id": "call_0", "action": "retry"}
    },
    ("POST", "/foreword/collections/{name}/sync"): {"files": {"file": ("x.txt", b"x")}},
    ("PUT", "/foreword/plan/quality/{collection}"): {
        "json": {"metric": "token_f1", "revision": 1, "model": "m", "scores": {"rag": [1.0]}}
    },
}


def _path(it: Deployment, path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: it.ids[match[1]], path)


def _body(it: Deployment, route: tuple[str, str]) -> dict[str, Any]:
    body = _BODIES.get(route, {})
    if "json" not in body:
        return body
    filled = json.dumps(body["json"]).replace("FILE", it.ids["file_id"])
    return {"json": json.loads(filled)}


def test_every_route_is_one_of_these() -> None:
    """A new route must be sorted in, or it is not known whether tenants are apart there."""
    known = _ABSENT | _LISTS | _OF_NOBODY
    unknown = {r for r in served_routes() - known if not _FOR_OPERATORS.match(r[1])}
    assert unknown == set()
    assert known <= served_routes()


@pytest.mark.parametrize("of", ["previous_response_id", "conversation"])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/input_tokens"])
def test_nobody_goes_on_from_what_another_said(deployment: Deployment, path: str, of: str) -> None:
    named = deployment.ids["response_id" if of == "previous_response_id" else "conversation_id"]
    body = {"model": "default", "input": "Is it 4711?", of: named}
    answer = deployment.ask("b", "POST", path, json=body)
    assert answer.status_code == 404, answer.text


def test_who_said_it_goes_on(deployment: Deployment) -> None:
    talk = deployment.ids["conversation_id"]
    body = {"model": "default", "input": "Is it 4711?", "conversation": talk}
    answer = deployment.ask("a", "POST", "/v1/responses/input_tokens", json=body)
    assert answer.json()["input_tokens"] > 10, answer.text


@pytest.mark.parametrize("route", sorted(_ABSENT), ids=" ".join)
def test_anothers_things_are_as_if_they_were_not(
    deployment: Deployment, route: tuple[str, str]
) -> None:
    method, path = route
    answer = deployment.ask("b", method, _path(deployment, path), **_body(deployment, route))
    assert answer.status_code == 404, answer.text
    assert "4711" not in answer.text


@pytest.mark.parametrize("route", sorted(_LISTS), ids=" ".join)
def test_lists_and_figures_are_of_ones_own(deployment: Deployment, route: tuple[str, str]) -> None:
    answer = deployment.ask("b", *route)
    assert answer.status_code == 200, answer.text
    for theirs in ("file_id", "store_id", "request_id", "batch", "conversation_id"):
        assert deployment.ids[theirs] not in answer.text
    assert "vault" not in answer.text
    assert '"a"' not in answer.text


def test_a_report_of_ones_own_counts_ones_own_alone(deployment: Deployment) -> None:
    mine = deployment.ask("a", "GET", "/foreword/report?by=tenant").json()
    theirs = deployment.ask("b", "GET", "/foreword/report?by=tenant").json()
    everybody = deployment.ask("admin", "GET", "/foreword/report?by=tenant").json()
    one = deployment.ask("admin", "GET", "/foreword/report?by=tenant&tenant=a").json()
    tried = deployment.ask("b", "GET", "/foreword/report?by=tenant&tenant=a").json()
    assert mine["total"]["requests"] == one["total"]["requests"] == 3
    assert everybody["total"]["requests"] >= 1
    assert theirs["total"] is None
    assert tried["total"] is None


def test_ones_own_last_request_is_explained_and_not_anothers(deployment: Deployment) -> None:
    assert deployment.ask("a", "GET", "/foreword/explain/last").status_code == 200
    assert deployment.ask("b", "GET", "/foreword/explain/last").status_code == 404
    path = f"/foreword/explain/{deployment.ids['request_id']}"
    assert deployment.ask("admin", "GET", path).status_code == 200


@pytest.mark.parametrize("mode", ["rag", "cag"])
def test_anothers_collection_can_not_be_asked(deployment: Deployment, mode: str) -> None:
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": "Which number?"}],
        "foreword": {"collection": deployment.ids["store_id"], "mode": mode},
    }
    answer = deployment.ask("b", "POST", "/v1/chat/completions", json=body)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "collection_not_found"
    tool = {"type": "file_search", "vector_store_ids": [deployment.ids["store_id"]]}
    asked = {"model": "default", "input": "Which number?", "tools": [tool]}
    assert deployment.ask("b", "POST", "/v1/responses", json=asked).status_code == 404


@pytest.mark.parametrize("field", ["conversation", "previous_response_id"])
def test_anothers_conversation_can_not_be_gone_on_with(deployment: Deployment, field: str) -> None:
    named = deployment.ids["conversation_id" if field == "conversation" else "response_id"]
    asked = {"model": "default", "input": "Which number?", field: named}
    answer = deployment.ask("b", "POST", "/v1/responses", json=asked)
    assert answer.status_code == 404
    assert "4711" not in answer.text


def test_anothers_file_can_not_be_put_into_ones_own_collection(deployment: Deployment) -> None:
    body = {"name": "mine", "file_ids": [deployment.ids["file_id"]]}
    assert deployment.ask("b", "POST", "/v1/vector_stores", json=body).status_code == 404
    assert "mine" not in deployment.ask("b", "GET", "/v1/vector_stores").text


def test_the_same_words_of_two_tenants_have_two_salts(
    deployment: Deployment, simulator: SimulatorThread
) -> None:
    text = "the very same words, long enough for several pages of the engine's cache " * 8
    body = {"model": "default", "messages": [{"role": "user", "content": text}], "max_tokens": 2}
    cached = []
    for who in ("a", "a", "b"):
        answer = deployment.ask(who, "POST", "/v1/chat/completions", json=body)
        usage = answer.json()["usage"]
        cached.append((usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0))
    assert cached[1] > cached[0]
    assert cached[2] < cached[1]


@pytest.mark.parametrize(
    "route",
    sorted(r for r in served_routes() if _FOR_OPERATORS.match(r[1]) and r[1] != "/metrics"),
    ids=" ".join,
)
def test_operators_routes_take_an_admins_key(
    deployment: Deployment, route: tuple[str, str]
) -> None:
    method, path = route
    for who in ("a", "monitor"):
        answer = deployment.ask(who, method, _path(deployment, path), json={"url": "http://x"})
        assert answer.status_code == 403, answer.text
        assert answer.json()["error"]["code"] == "insufficient_permissions"


@pytest.mark.parametrize("route", sorted(served_routes()), ids=" ".join)
def test_without_a_key_nothing_is_answered_but_that_it_lives(
    deployment: Deployment, route: tuple[str, str]
) -> None:
    method, path = route
    for headers in ({}, {"authorization": "Bearer fw-guess"}, {"authorization": "Basic YQ=="}):
        answer = deployment.ask(None, method, _path(deployment, path), headers=headers)
        if path in ("/livez", "/readyz"):
            assert answer.status_code == 200
            assert set(answer.json()) == {"status"}
        elif path == "/":
            assert answer.status_code == 404, "which names the pages and the API's root"
        elif path.startswith("/ui"):
            # Files that come with every gateway; what they ask for needs a key.
            assert answer.status_code in (200, 307)
        else:
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["error"]["code"] == "invalid_api_key"


def test_a_monitor_reads_figures_and_nothing_else(deployment: Deployment) -> None:
    assert deployment.ask("monitor", "GET", "/metrics").status_code == 200
    assert "reasons" in deployment.ask("monitor", "GET", "/readyz").json()
    assert deployment.ask("a", "GET", "/metrics").status_code == 403
    assert set(deployment.ask("a", "GET", "/readyz").json()) == {"status"}
    for path in ("/v1/models", "/v1/files", "/foreword/report", "/foreword/collections"):
        assert deployment.ask("monitor", "GET", path).status_code == 403
