"""Limits, turns and keys as clients meet them, with the unmodified OpenAI SDK where it matters."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Priority, Role
from app.settings import AdmissionSettings
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

IN_FLIGHT = 2


@pytest.fixture(scope="module")
def slow_engine(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    """An answer of 40 tokens takes some tenths of a second."""
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=2))
    with SimulatorThread(config) as running:
        yield running


class Gateway:
    """A gateway that lets two requests in at a time, and an admin's key."""

    def __init__(self, url: str, admin: str) -> None:
        self.url = url
        self.admin = admin

    def ask(self, method: str, path: str, key: str | None = None, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {key or self.admin}"} | more.pop("headers", {})
        return httpx.request(
            method, f"{self.url}{path}", headers=headers, trust_env=False, timeout=60, **more
        )

    def key(self, tenant: str, **about: Any) -> str:
        made = self.ask("POST", "/foreword/keys", json={"tenant": tenant, **about})
        assert made.status_code == 200, made.text
        return str(made.json()["key"])

    def limit(self, tenant: str, **limits: Any) -> None:
        made = self.ask("PUT", f"/foreword/tenants/{tenant}/limits", json=limits)
        assert made.status_code == 200, made.text

    def chat(self, key: str, *, tokens: int = 2, **more: Any) -> httpx.Response:
        headers = more.pop("headers", {})
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": "Say something."}],
            "max_tokens": tokens,
            **more,
        }
        return self.ask("POST", "/v1/chat/completions", key, json=body, headers=headers)

    @contextmanager
    def busy(self, key: str) -> Iterator[None]:
        """While all places are taken, by requests whose answers would take a minute."""
        body = {
            "model": "default", "messages": [{"role": "user", "content": "Say much."}],
            "max_tokens": 6000, "stream": True,
        }  # fmt: skip
        headers = {"authorization": f"Bearer {key}"}
        url = f"{self.url}/v1/chat/completions"
        with ExitStack() as stack, httpx.Client(trust_env=False, timeout=60) as client:
            for _ in range(IN_FLIGHT):
                streamed = client.stream("POST", url, json=body, headers=headers)
                assert stack.enter_context(streamed).status_code == 200
            assert _admitted(self) == IN_FLIGHT
            yield


@pytest.fixture(scope="module")
def gateway(
    slow_engine: SimulatorThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("limits")
    with open_store(home, None) as store:
        admin = store.create(NewKey(tenant="ops", role=Role.ADMIN), by=OPERATOR).key
    settings = gateway_settings(home, slow_engine.url).model_copy(
        update={"admission": AdmissionSettings(in_flight=IN_FLIGHT, queued=8)}
    )
    with running_gateway(settings) as url:
        wait_until_ready(url)
        yield Gateway(url, admin)


def test_a_minutes_requests_are_told_in_every_answer_and_the_sdk_understands(
    gateway: Gateway,
) -> None:
    key = gateway.key("rated")
    gateway.limit("rated", requests_per_min=2)
    first = gateway.chat(key)
    assert first.status_code == 200
    assert first.headers["x-ratelimit-limit-requests"] == "2"
    assert first.headers["x-ratelimit-remaining-requests"] == "1"
    assert gateway.chat(key).status_code == 200
    with (
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0) as client,
        pytest.raises(openai.RateLimitError) as caught,
    ):
        client.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "more"}]
        )
    assert caught.value.code == "rate_limit_exceeded"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 30
    assert caught.value.response.headers["x-ratelimit-remaining-requests"] == "0"
    assert gateway.chat(gateway.key("unrated")).status_code == 200


def test_streams_and_other_routes_count_too(gateway: Gateway) -> None:
    key = gateway.key("counted")
    gateway.limit("counted", requests_per_min=3)
    assert gateway.chat(key, stream=True).headers["x-ratelimit-remaining-requests"] == "2"
    response = gateway.ask(
        "POST",
        "/v1/responses",
        key,
        json={"model": "default", "input": "x", "max_output_tokens": 16},
    )
    assert response.headers["x-ratelimit-remaining-requests"] == "1"
    text = {"model": "default", "prompt": "x", "max_tokens": 2}
    assert gateway.ask("POST", "/v1/completions", key, json=text).status_code == 200
    vector = {"model": "default", "input": "x"}
    assert gateway.ask("POST", "/v1/embeddings", key, json=vector).status_code == 429


_NO_MODEL = (
    ("POST", "/v1/vector_stores/vs_none/search", {"json": {"query": "x"}}),
    ("GET", "/v1/vector_stores", {}),
    ("GET", "/v1/vector_stores/vs_none/files", {}),
    ("POST", "/v1/files", {"files": {"file": ("x.txt", b"x")}, "data": {"purpose": "assistants"}}),
    ("GET", "/v1/files", {}),
    ("POST", "/foreword/collections/none/sync", {"files": {"file": ("x.txt", b"x")}}),
    ("GET", "/foreword/collections", {}),
    ("GET", "/foreword/report", {}),
    ("GET", "/foreword/explain/last", {}),
    ("GET", "/foreword/plan", {}),
)


@pytest.mark.parametrize(
    ("method", "path", "more"), _NO_MODEL, ids=[f"{method} {path}" for method, path, _ in _NO_MODEL]
)
def test_what_no_engine_works_on_counts_as_a_request(
    gateway: Gateway, method: str, path: str, more: dict[str, Any]
) -> None:
    tenant = f"looks-{method}-{path}".lower().replace("/", "-")
    key = gateway.key(tenant)
    gateway.limit(tenant, requests_per_min=1, tokens_per_min=1, tokens_per_day=1)
    before = _limited(gateway, "requests_per_minute")
    first = gateway.ask(method, path, key, **more)
    assert first.status_code in (200, 404), first.text
    assert first.headers["x-ratelimit-remaining-requests"] == "0"
    refused = gateway.ask(method, path, key, **more)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert _limited(gateway, "requests_per_minute") == before + 1
    # What tells a client how it stands, and what names the models, stays free.
    for free in ("/foreword/limits", "/v1/models", "/foreword/templates"):
        assert gateway.ask("GET", free, key).status_code == 200


def test_an_upload_that_does_not_end_holds_one_of_the_tenants_places(gateway: Gateway) -> None:
    key = gateway.key("single-file")
    gateway.limit("single-file", concurrent=1)
    host, port = gateway.url.removeprefix("http://").split(":")
    head = (
        f"POST /v1/files HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=60) as half:
        half.sendall(head.encode())
        refused = _until(lambda: gateway.ask("GET", "/v1/files", key), status=429)
        assert "requests at a time" in refused.json()["error"]["message"]
        assert refused.headers["retry-after"] == "1"
    assert _until(lambda: gateway.ask("GET", "/v1/files", key), status=200)


def test_an_operator_may_look_at_the_deployment_whatever_its_tenants_limits(
    gateway: Gateway,
) -> None:
    gateway.limit("ops", requests_per_min=1)
    try:
        for path in ("/foreword/report", "/foreword/plan", "/foreword/keys", "/foreword/audit"):
            for _ in range(2):
                assert gateway.ask("GET", path).status_code == 200
    finally:
        gateway.limit("ops")


def test_tokens_are_put_right_after_the_answer_and_the_day_counts_them(gateway: Gateway) -> None:
    key = gateway.key("metered")
    gateway.limit("metered", tokens_per_min=100_000, tokens_per_day=10_000)
    answer = gateway.chat(key, tokens=40)
    used = answer.json()["usage"]["total_tokens"]
    told = gateway.ask("GET", "/foreword/limits", key).json()
    assert told["tokens_today"] == used
    after = gateway.chat(key)
    assert int(after.headers["x-ratelimit-remaining-tokens"]) >= 100_000 - used - 200
    refused = gateway.chat(key, tokens=9_999)
    assert refused.status_code == 429
    assert "tokens per day" in refused.json()["error"]["message"]


def test_longer_answers_and_prompts_than_the_tenants_are_refused_before_the_engine(
    gateway: Gateway, slow_engine: SimulatorThread
) -> None:
    key = gateway.key("short")
    gateway.limit("short", max_output_tokens=8, max_prompt_tokens=200)
    for more in ({"tokens": 9}, {"tokens": 5, "n": 2}):
        refused = gateway.chat(key, **more)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "output_limit_exceeded"
    unsaid = gateway.chat(key, max_tokens=None)
    assert unsaid.status_code == 200
    assert unsaid.json()["usage"]["completion_tokens"] <= 8
    long = [{"role": "user", "content": "many words " * 200}]
    refused = gateway.chat(key, messages=long)
    assert refused.json()["error"]["code"] == "prompt_limit_exceeded"


def test_a_request_whose_turn_does_not_come_in_time_is_told_so(gateway: Gateway) -> None:
    key = gateway.key("late")
    with gateway.busy(key):
        for how in (
            {"headers": {"x-foreword-deadline-s": "0.05"}},
            {"foreword": {"deadline_s": 0.05}},
        ):
            late = gateway.chat(key, **how)
            assert late.status_code == 504, late.text
            assert late.json()["error"]["code"] == "deadline_exceeded"
            assert _admitted(gateway) == IN_FLIGHT, "it waited for its turn"
    assert _levels(gateway) == (0, 0)
    wrong = gateway.chat(key, headers={"x-foreword-deadline-s": "soon"})
    assert wrong.status_code == 400


def test_a_full_queue_refuses_with_a_time_to_try_again(gateway: Gateway) -> None:
    key = gateway.key("crowd")
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: gateway.chat(key, tokens=60), range(24)))
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    full = next(answer for answer in answers if answer.status_code == 429)
    assert full.json()["error"]["code"] == "queue_full"
    assert int(full.headers["retry-after"]) >= 1
    assert _levels(gateway) == (0, 0)


def test_one_tenants_crowd_does_not_keep_another_out(gateway: Gateway) -> None:
    crowd, single = gateway.key("crowd"), gateway.key("single")
    done: list[tuple[float, str]] = []
    lock = threading.Lock()

    def ask(key: str, who: str) -> None:
        answer = gateway.chat(key, tokens=120)
        if answer.status_code == 200:
            with lock:
                done.append((time.monotonic(), who))

    with ThreadPoolExecutor(10) as pool:
        for _ in range(8):
            pool.submit(ask, crowd, "crowd")
        _until_busy(gateway, waiting=4)
        pool.submit(ask, single, "single")
    order = [who for _, who in sorted(done)]
    assert "single" in order
    assert order.index("single") < len(order) - 2


def test_a_keys_ceiling_holds_whatever_its_requests_say(gateway: Gateway) -> None:
    key = gateway.key("slowly", priority="background")
    before = _let_in(gateway, "interactive")
    assert gateway.chat(key, foreword={"priority": "interactive"}).status_code == 200
    assert _let_in(gateway, "background") >= 1
    assert _let_in(gateway, "interactive") == before
    refused = gateway.chat(key, foreword={"priority": "first"})
    assert refused.status_code == 400


def test_a_client_that_goes_away_frees_its_place(gateway: Gateway) -> None:
    key = gateway.key("gone")
    body = b'{"model": "default", "messages": [{"role": "user", "content": "x"}]}'
    host, port = gateway.url.removeprefix("http://").split(":")
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with gateway.busy(key):
        with socket.create_connection((host, int(port)), timeout=60) as gone:
            gone.sendall(head.encode() + body)
            _until_busy(gateway, waiting=1)
        _until_nobody_waits(gateway)
    # The answers to all three would take longer than is waited here.
    assert _levels(gateway) == (0, 0)


def test_keys_are_made_rotated_and_revoked_over_http(gateway: Gateway) -> None:
    made = gateway.ask(
        "POST", "/foreword/keys", json={"tenant": "acme", "name": "ci", "expires_s": 3600}
    ).json()
    assert gateway.chat(made["key"]).status_code == 200
    shown = gateway.ask("GET", f"/foreword/keys/{made['id']}").json()
    assert "key" not in shown
    assert shown["last_used_at"] is not None
    path = f"/foreword/keys/{made['id']}/rotate"
    rotated = gateway.ask("POST", path, json={"grace_s": 60}).json()
    assert gateway.chat(made["key"]).status_code == 200
    assert gateway.chat(rotated["key"]).status_code == 200
    ended = gateway.ask("DELETE", f"/foreword/keys/{rotated['id']}").json()
    assert ended["status"] == "revoked"
    assert gateway.chat(rotated["key"]).status_code == 401
    listed = gateway.ask("GET", "/foreword/keys", params={"tenant": "acme"}).json()["data"]
    assert [key["status"] for key in listed] == ["active", "revoked"]
    actions = [e["action"] for e in gateway.ask("GET", "/foreword/audit?limit=3").json()["data"]]
    assert actions == ["key.revoke", "key.rotate", "key.create"]
    assert gateway.ask("DELETE", "/foreword/keys/key_none").status_code == 404
    wrong = gateway.ask("POST", "/foreword/keys", json={"tenant": "a/b"})
    assert wrong.json()["error"]["code"] == "key_refused"


def test_limits_of_a_tenant_without_keys_say_so(gateway: Gateway) -> None:
    """It may be one to come, or misspelt."""
    path = "/foreword/tenants/to-come/limits"
    assert gateway.ask("PUT", path, json={"concurrent": 2}).json()["keys"] == 0
    key = gateway.key("to-come")
    assert gateway.ask("GET", path).json()["keys"] == 1
    own = gateway.ask("GET", "/foreword/limits", key).json()
    assert (own["keys"], own["limits"]["concurrent"]) == (1, 2)


def test_the_last_admins_key_is_not_revoked_by_accident(gateway: Gateway) -> None:
    listed = gateway.ask("GET", "/foreword/keys").json()["data"]
    [last] = [k["id"] for k in listed if k["role"] == "admin" and k["status"] == "active"]
    refused = gateway.ask("DELETE", f"/foreword/keys/{last}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "key_refused")
    assert "last_admin=true" in refused.json()["error"]["message"]
    assert gateway.ask("GET", f"/foreword/keys/{last}").json()["status"] == "active"
    other = gateway.ask("POST", "/foreword/keys", json={"tenant": "ops", "role": "admin"}).json()
    ended = gateway.ask("DELETE", f"/foreword/keys/{other['id']}?last_admin=true")
    assert ended.json()["status"] == "revoked"


def _levels(gateway: Gateway) -> tuple[float, float]:
    """Requests that wait, and that were let in; once all that ended have been seen to."""
    deadline = time.monotonic() + 30
    while True:
        page = gateway.ask("GET", "/metrics").text
        found = (
            _value(page, "foreword_queue_depth"),
            _value(page, "foreword_admitted_requests"),
        )
        if found == (0, 0) or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def _admitted(gateway: Gateway) -> float:
    return _value(gateway.ask("GET", "/metrics").text, "foreword_admitted_requests")


def _until_busy(gateway: Gateway, *, waiting: int = 0) -> None:
    deadline = time.monotonic() + 30
    while True:
        page = gateway.ask("GET", "/metrics").text
        busy = _value(page, "foreword_admitted_requests") >= IN_FLIGHT
        if busy and _value(page, "foreword_queue_depth") >= waiting:
            return
        assert time.monotonic() < deadline, "the engine was never busy"
        time.sleep(0.01)


def _until_nobody_waits(gateway: Gateway) -> None:
    deadline = time.monotonic() + 30
    while _value(gateway.ask("GET", "/metrics").text, "foreword_queue_depth"):
        assert time.monotonic() < deadline, "who left still waits"
        time.sleep(0.01)


def _let_in(gateway: Gateway, priority: str) -> float:
    name = f'foreword_queue_seconds_count{{priority="{Priority.of(priority).label}"}}'
    page = gateway.ask("GET", "/metrics").text
    return _value(page, name) if name in page else 0.0


def _limited(gateway: Gateway, limit: str) -> float:
    """How often a limit turned requests away."""
    name = f'foreword_limited_total{{limit="{limit}"}}'
    page = gateway.ask("GET", "/metrics").text
    return _value(page, name) if name in page else 0.0


def _until(ask: Callable[[], httpx.Response], *, status: int) -> httpx.Response:
    deadline = time.monotonic() + 30
    while (answer := ask()).status_code != status:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.02)
    return answer


def _value(page: str, name: str) -> float:
    [line] = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(line.rsplit(" ", 1)[1])
