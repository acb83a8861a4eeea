"""A gateway as it is served, attacked over its socket."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from app.stack.ports import free_ports
from tests.app.wire.raw_client import ask, connected, get, post, request
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.processes import end

CHAT = "/v1/chat/completions"
BODY = json.dumps(
    {"model": "default", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
).encode()
JSON = b"content-type: application/json"


def chat(**fields: object) -> bytes:
    return json.dumps({**json.loads(BODY), **fields}).encode()


@pytest.mark.parametrize(
    "path",
    [
        "/get_server_info", "/get_model_info", "/flush_cache", "/generate", "/health_generate",
        "/update_weights_from_disk", "/start_profile", "/v1/../get_server_info",
        "/v1/%2e%2e/get_server_info", "//127.0.0.1/get_server_info", "/v1/chat/completions/../../x",
        "http://127.0.0.1:30000/get_server_info", "http://169.254.169.254/latest/meta-data/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_no_path_reaches_the_engine(gateway: str, method: bytes, path: str) -> None:
    heard = ask(gateway, request(method, path, b"connection: close", b"content-length: 0"))
    assert heard.status in (404, 405)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files/..%2f..%2fetc%2fpasswd", "/v1/files/..%2f..%2fhmac.key/content",
        "/v1/files/%00/content", "/v1/files/%ff%fe/content", "/v1/vector_stores/..%2f..",
        "/foreword/collections/..%2f..%2fx", "/foreword/explain/..%2f..%2fhmac.key",
        "/v1/models/..%2f..%2fx", "/v1/responses/%0d%0aset-cookie:%20a",
    ],
)  # fmt: skip
def test_ids_are_no_paths(gateway: str, path: str) -> None:
    heard = ask(gateway, get(path))
    assert heard.status in (400, 404)
    assert b"set-cookie" not in heard.data.lower().split(b"\r\n\r\n")[0]


@pytest.mark.parametrize(
    "headers",
    [
        (b"origin: https://evil.example",),
        (b"origin: null",),
        (b"origin: http://127.0.0.1.evil.example",),
        (b"origin: https://evil.example", b"authorization: Bearer fw-guess"),
        (b"origin: https://evil.example", b"content-type: text/plain"),
    ],
)
def test_no_other_web_page_may_use_it_without_keys(
    gateway: str, headers: tuple[bytes, ...]
) -> None:
    heard = ask(gateway, post(CHAT, BODY, *headers))
    assert heard.status == 403
    assert b'"code":"foreign_page"' in heard.data
    assert b"access-control-allow" not in heard.data.lower()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8400", "127.0.0.1.evil.example"])
def test_a_name_that_points_here_is_not_ours(gateway: str, host: str) -> None:
    """DNS rebinding: to the browser, page and gateway are then one site."""
    heard = ask(
        gateway, b"GET /v1/models HTTP/1.1\r\nhost: %b\r\nconnection: close\r\n\r\n" % host.encode()
    )
    assert heard.status == 403


def test_nor_is_it_where_the_gateway_listens_on_every_interface(
    simulator_url: str, tmp_path: Path
) -> None:
    """As in a container, whose port is published on the operator's loopback."""
    settings = gateway_settings(tmp_path, simulator_url)
    open_everywhere = {"host": "0.0.0.0", "allow_without_keys": True}
    gateway = settings.gateway.model_copy(update=open_everywhere)
    wire = settings.wire.model_copy(update={"hosts": ("gateway",)})
    update = {"gateway": gateway, "wire": wire}
    with running_gateway(settings.model_copy(update=update)) as url:
        wait_until_ready(url)
        for host, status in (("evil.example:8499", 403), ("gateway:8400", 200), ("10.1.2.3", 200)):
            names = {"host": host, "origin": f"http://{host}"}
            assert httpx.get(f"{url}/foreword/keys", headers=names).status_code == status
            assert httpx.get(f"{url}/metrics", headers={"host": host}).status_code == status


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8400", "[::1]:8400", "a.localhost"])
def test_our_own_names_are(gateway: str, host: str) -> None:
    own = b"origin: http://" + host.encode()
    data = b"GET /v1/models HTTP/1.1\r\nhost: %b\r\n%b\r\nconnection: close\r\n\r\n"
    assert ask(gateway, data % (host.encode(), own)).status == 200


def test_no_redirect_goes_where_the_client_says(gateway: str) -> None:
    heard = ask(gateway, post("/v1/chat/completions/", BODY, b"x-forwarded-host: evil.example"))
    assert heard.status == 404
    assert b"location" not in heard.data.lower()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000_000, b'{"a":' * 1_000_000, b"[" * 1000 + b"]" * 1000,
        b'{"a":' * 300 + b"1" + b"}" * 300, b"[" + b"[]," * 1_000_000 + b"[]]",
        b'"\xff"', b'{"model":"\\ud800"}', b"\x00", b"", b"nul", b"1e999", b"9" * 100_000,
        chat(tools=[{"type": "function", "function": {"name": "f", "parameters": json.loads(
            '{"properties":' * 80 + "{}" + "}" * 80)}}]),
        chat(metadata=json.loads("[" * 100 + "]" * 100)),
    ],
    ids=lambda body: repr(body[:20]) + str(len(body)),
)  # fmt: skip
@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/vector_stores"])
def test_monstrous_json_is_refused(gateway: str, path: str, body: bytes) -> None:
    heard = ask(gateway, post(path, body, JSON))
    assert heard.status == 400
    assert b'"type":"invalid_request_error"' in heard.data


def test_a_json_body_is_bounded_before_it_is_read(gateway: str) -> None:
    with connected(gateway) as client:
        client.send(request(b"POST", CHAT, JSON, b"connection: close", b"content-length: 17000000"))
        heard = client.hear()
    assert heard.status == 413
    assert b"FOREWORD_WIRE__JSON_BYTES" in heard.data


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2**63}, {"n": 0}, {"n": True}, {"n": 129}, {"top_logprobs": 10**9},
        {"top_k": 2**40}, {"min_tokens": 2**40}, {"seed": 2**64}, {"temperature": 1e300},
        {"stop_token_ids": [10**9], "min_tokens": 1}, {"stop_token_ids": [-1]},
        {"stop_token_ids": [1] * 1000}, {"logit_bias": {"1": 1e300}},
        {"logit_bias": {"9" * 5000: 1}}, {"logit_bias": {"-1": 1}}, {"stop": ["a"] * 1000},
        {"stop": "a" * 100_000}, {"regex": "(a{1,1000}){1,1000}" * 1000},
        {"ebnf": "a" * 100_000},
    ],
)  # fmt: skip
def test_what_an_engine_would_die_of_does_not_reach_it(
    gateway: str, fields: dict[str, object]
) -> None:
    answer = httpx.post(f"{gateway}{CHAT}", content=chat(**fields), trust_env=False)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in fields


def test_headers_stay_where_they_are(gateway: str) -> None:
    """What a client calls itself ends up in no header of ours with a line of its own."""
    odd = b"x-request-id: a\tb\x85c", b"x-client-request-id: \xff\xfe"
    heard = ask(gateway, post(CHAT, BODY, JSON, *odd))
    assert heard.status == 200


@pytest.mark.slow
def test_web_pages_are_shut_in(gateway: str) -> None:
    answer = httpx.get(f"{gateway}/foreword/report?format=html", trust_env=False)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for page in ("/docs", "/redoc"):
        assert httpx.get(f"{gateway}{page}", trust_env=False).status_code == 404


def test_nobody_learns_which_server_this_is(gateway: str) -> None:
    assert "server" not in httpx.get(f"{gateway}/livez", trust_env=False).headers


_SERVED = """
import logging, threading
logging.basicConfig(level=logging.DEBUG)
import structlog
from app.serve import serve
serve()
"""


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the gateway did not get ready")


@pytest.mark.slow
def test_no_secret_is_in_any_log(simulator_url: str, tmp_path: Path) -> None:
    """All logs at their most talkative, over requests that go well and that go wrong."""
    secret, key, prompt = "s3cr3t-p4ssw0rd", "fw-" + "k" * 43, "a very private question"
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "FOREWORD_HOME": str(tmp_path / "home"),
        "FOREWORD_RETRIEVAL__EMBEDDER": "hashing",
        "FOREWORD_GATEWAY__PORT": str(port),
        "FOREWORD_RETRIEVAL__VECTORS_URL": f"postgresql://u:{secret}@127.0.0.1:9/x",
        "PYTHONASYNCIODEBUG": "1",
    }
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVED, "--engine-url", simulator_url],
            env=environment, stdout=out, stderr=out,
        )  # fmt: skip
        try:
            _wait(url, process)
            for body in (
                chat(messages=[{"role": "user", "content": prompt}]),
                chat(messages=[{"role": "user", "content": prompt, "x": [prompt]}], bad=prompt),
                prompt.encode(),
                chat(messages=prompt),
            ):
                ask(url, post(CHAT, body, JSON, b"authorization: Bearer " + key.encode()))
            ask(url, get(f"/v1/files?after={key}", b"x-api-key: " + key.encode()))
            ask(url, b"POST /v1/files HTTP/1.1\r\n" + key.encode() + b"\r\n\r\n")
        finally:
            end(process)
    text = log.read_bytes()
    hmac_key = (tmp_path / "home" / "hmac.key").read_bytes()
    texts = [text.encode() for text in (secret, key, prompt, hmac_key.hex())]
    for hidden in [*texts, hmac_key]:
        assert hidden not in text
    assert b"engine_met" in text, "there is a log at all"
