"""`/livez`, `/readyz` and `/metrics` of a running gateway."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.engine_sim import SimulatorThread
from tests.app.test_series import of, samples
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

_QUESTION = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}


@pytest.fixture
def http(gateway: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway, trust_env=False) as client:
        yield client


def metrics(client: httpx.Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return samples(answer.content)


def test_a_live_process_says_so(http: httpx.Client) -> None:
    assert http.get("/livez").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/ui/", "/v1/models"])
def test_a_head_request_is_a_get_without_a_body(http: httpx.Client, path: str) -> None:
    got, head = http.get(path), http.head(path)
    assert head.status_code == got.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == got.headers["content-type"]
    counted = of("foreword_http_requests_total", route="/livez", method="HEAD", code="200")
    if path == "/livez":
        assert metrics(http)[counted] >= 1


def test_browsers_are_led_from_the_root_to_the_page(http: httpx.Client) -> None:
    led = http.get("/", headers={"accept": "text/html,*/*"})
    assert (led.status_code, led.headers["location"]) == (307, "ui/")
    for path in ("/", "/docs"):
        told = http.get(path)
        assert (told.status_code, told.json()["error"]["code"]) == (404, "unknown_url")
        assert "/ui" in told.json()["error"]["message"]
        assert "/v1" in told.json()["error"]["message"]


def test_what_is_refused_before_it_is_understood_is_counted_by_its_code(http: httpx.Client) -> None:
    counted = of("foreword_request_errors_total", code="invalid_request")
    before = metrics(http).get(counted, 0)
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses"):
        assert http.post(path, content=b"{").status_code == 400
    assert http.get("/v1/responses/resp_1").status_code == 404  # no model request
    assert http.post("/v1/chat/completions", json=_QUESTION | {"max_tokens": 0}).status_code == 400
    assert metrics(http)[counted] == before + 4


def test_readiness_tells_of_each_replica(http: httpx.Client) -> None:
    ready = http.get("/readyz").json()
    told = ready["replicas"]["engine-0"]
    assert (told["state"], told["breaker"]) == ("ready", "closed")
    assert ready["reasons"] == told["reasons"]


def test_requests_are_counted_by_route_and_code(http: httpx.Client) -> None:
    before = metrics(http)
    assert http.post("/v1/chat/completions", json=_QUESTION).status_code == 200
    assert http.post("/v1/chat/completions", json={}).status_code == 400
    assert http.get("/v1/nothing/here").status_code == 404
    assert http.get("/v1/vector_stores/vs_1").status_code == 404
    after = metrics(http)

    def more(route: str, method: str, code: str) -> float:
        key = of("foreword_http_requests_total", route=route, method=method, code=code)
        return after[key] - before.get(key, 0)

    assert more("/v1/chat/completions", "POST", "200") == 1
    assert more("/v1/chat/completions", "POST", "400") == 1
    assert more("unmatched", "GET", "404") == 1
    assert more("/v1/vector_stores/{store_id}", "GET", "404") == 1
    sent = of("foreword_http_response_bytes_total", route="/v1/chat/completions")
    assert after[sent] > before.get(sent, 0) + 300


def test_a_streams_gaps_and_speed_are_counted(http: httpx.Client) -> None:
    before = metrics(http)
    body = _QUESTION | {"stream": True, "max_tokens": 8}
    assert http.post("/v1/chat/completions", json=body).status_code == 200
    after = metrics(http)
    for name, labels, least in (
        ("foreword_itl_seconds_count", {"replica": "engine-0"}, 2),
        ("foreword_output_tokens_per_second_count", {"replica": "engine-0"}, 1),
        ("foreword_ttft_seconds_count", {"template": "chat@1", "replica": "engine-0"}, 1),
        ("foreword_e2e_seconds_count", {"template": "chat@1", "replica": "engine-0"}, 1),
        ("foreword_routed_total", {"replica": "engine-0", "status": "ok"}, 1),
        ("foreword_request_output_tokens_sum", {"template": "chat@1"}, 8),
    ):
        key = of(name, **labels)
        assert after[key] - before.get(key, 0) >= least, name


def test_levels_tell_of_readiness_replicas_and_the_process(http: httpx.Client) -> None:
    seen = metrics(http)
    assert seen[of("foreword_ready")] == 1
    assert seen[of("foreword_in_flight_requests")] == 0
    assert seen[of("foreword_replica_state", replica="engine-0", state="ready")] == 1
    assert seen[of("foreword_replica_state", replica="engine-0", state="away")] == 0
    assert seen[of("foreword_replica_breaker_open", replica="engine-0")] == 0
    assert seen[of("foreword_event_loop_lag_seconds")] >= 0
    assert seen[of("foreword_queue_depth")] == seen[of("foreword_admitted_requests")] == 0
    assert seen[of("foreword_admission_capacity")] > 0
    assert seen[of("process_cpu_seconds_total")] > 0


def test_a_client_that_leaves_is_counted_as_499(http: httpx.Client, gateway: str) -> None:
    port = int(gateway.rpartition(":")[2])
    body = b'{"model": "default", "messages": ['
    with socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n" + body
        )
        time.sleep(0.1)
    key = of(
        "foreword_http_requests_total", route="/v1/chat/completions", method="POST", code="499"
    )
    deadline = time.monotonic() + 30
    while metrics(http).get(key, 0) < 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_without_an_engine_the_gateway_lives_and_is_not_ready(tmp_path: Path) -> None:
    with running_gateway(gateway_settings(tmp_path, "http://127.0.0.1:9")) as url:
        assert httpx.get(f"{url}/livez", trust_env=False).status_code == 200
        answer = httpx.get(f"{url}/readyz", trust_env=False)
        told: dict[str, Any] = answer.json()
        assert (answer.status_code, told["status"]) == (503, "not ready")
        assert "127.0.0.1:9" in told["reasons"][0]
        assert told["replicas"]["engine-0"]["state"] == "starting"
        seen = samples(httpx.get(f"{url}/metrics", trust_env=False).content)
        assert seen[of("foreword_ready")] == 0
        assert of("foreword_degraded_reasons") not in seen


def test_one_replica_of_two_that_is_away_degrades_and_is_named(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    settings = gateway_settings(tmp_path, simulator.url)
    urls = (simulator.url, "http://127.0.0.1:9")
    replicas = settings.replicas.model_copy(update={"urls": urls})
    with running_gateway(settings.model_copy(update={"replicas": replicas})) as url:
        wait_until_ready(url)
        told = httpx.get(f"{url}/readyz", trust_env=False).json()
        assert told["status"] == "degraded"
        assert told["replicas"]["engine-0"]["state"] == "ready"
        assert told["replicas"]["engine-1"]["state"] == "starting"
        assert any(reason.startswith("engine-1: ") for reason in told["reasons"])
        seen = samples(httpx.get(f"{url}/metrics", trust_env=False).content)
        assert seen[of("foreword_replica_state", replica="engine-1", state="starting")] == 1
