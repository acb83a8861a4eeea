"""What operators have, asked for with other keys and with hostile input; names that are markup."""

import json
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

from tests.app.wire.raw_client import ask, get
from tests.gateways import add_collection, gateway_settings, running_gateway, wait_until_ready

MARKUP = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>"
HOSTILE = [
    "%2e%2e%2f", "'; drop table keys; --", "\r\nset-cookie: a=b", "\ud7ff\u202e", "a" * 5000,
    "<script>", "{{7*7}}", "$(id)", "-1",
]  # fmt: skip
OPERATORS = [
    ("GET", "/foreword/keys"),
    ("POST", "/foreword/keys"),
    ("GET", "/foreword/keys/{name}"),
    ("POST", "/foreword/keys/{name}/rotate"),
    ("DELETE", "/foreword/keys/{name}"),
    ("GET", "/foreword/audit"),
    ("GET", "/foreword/replicas"),
    ("POST", "/foreword/replicas"),
    ("POST", "/foreword/replicas/{name}/cordon"),
    ("POST", "/foreword/replicas/{name}/uncordon"),
    ("POST", "/foreword/replicas/{name}/drain"),
    ("DELETE", "/foreword/replicas/{name}"),
    ("GET", "/foreword/tenants/{name}/limits"),
    ("PUT", "/foreword/tenants/{name}/limits"),
    ("DELETE", "/foreword/tenants/{name}/limits"),
    ("DELETE", "/foreword/tenants/{name}/kv"),
]


class Deployment:
    """A gateway with a key of each role."""

    def __init__(self, client: httpx.Client) -> None:
        self.url = str(client.base_url)
        self._client = client
        self._keys: dict[str, str] = {}
        for role in ("admin", "user", "monitor"):
            body = {"tenant": "other-shop" if role == "user" else "acme", "role": role}
            made = self.ask("POST", "/foreword/keys", "admin", json=body)
            self._keys[role] = made.raise_for_status().json()["key"]

    def ask(self, method: str, path: str, role: str | None, **more: object) -> httpx.Response:
        """One request, with that role's key; None: with none."""
        key = self._keys.get(role or "")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return self._client.request(method, path, headers=headers, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def deployment(
    simulator_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, simulator_url)) as url:
        wait_until_ready(url)
        with httpx.Client(base_url=url, trust_env=False) as client:
            yield Deployment(client)


@pytest.mark.parametrize(("method", "path"), OPERATORS)
def test_only_admins_reach_what_operators_have(
    deployment: Deployment, method: str, path: str
) -> None:
    path = path.format(name="engine-0")
    assert deployment.ask(method, path, None, json={}).status_code == 401
    for role in ("user", "monitor"):
        answer = deployment.ask(method, path, role, json={"tenant": "x", "url": "http://h"})
        assert answer.status_code == 403, role
        assert answer.json()["error"]["code"] == "insufficient_permissions"
    assert [r["state"] for r in _replicas(deployment)] == ["ready"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_in_paths_are_only_names(deployment: Deployment, name: str) -> None:
    for method, path in OPERATORS:
        if "{name}" in path:
            answer = deployment.ask(
                method, path.format(name=quote(name, safe="")), "admin", json={}
            )
            assert 400 <= answer.status_code < 500, (method, path)
            assert "set-cookie" not in answer.headers
            assert set(answer.json()) == {"error"}
    assert [r["state"] for r in _replicas(deployment)] == ["ready"]


@pytest.mark.parametrize(
    "value", [*HOSTILE, True, -1, 1e308, [], {}, None], ids=range(len(HOSTILE) + 6)
)
def test_fields_of_operators_bodies_are_checked(deployment: Deployment, value: object) -> None:
    bodies: list[tuple[str, str, dict[str, object]]] = [
        ("POST", "/foreword/keys", {"tenant": value}),
        ("POST", "/foreword/keys", {"tenant": "t", "role": value}),
        ("POST", "/foreword/keys", {"tenant": "t", "priority": value}),
        ("POST", "/foreword/keys", {"tenant": "t", value if isinstance(value, str) else "x": 1}),
        ("POST", "/foreword/replicas", {"url": value}),
        ("POST", "/foreword/replicas", {"url": "http://127.0.0.1:9", "name": [value]}),
        ("PUT", "/foreword/tenants/t/limits", {"weight": [value]}),
        ("PUT", "/foreword/tenants/t/limits", {"requests_per_min": str(value)}),
    ]
    for method, path, body in bodies:
        answer = deployment.ask(method, path, "admin", content=json.dumps(body))
        assert answer.status_code == 400, (path, body, answer.text)


@pytest.mark.parametrize("query", ["limit=0", "limit=1e9", "before=-1", "before=x", "action=" * 99])
def test_the_audit_logs_query_is_checked(deployment: Deployment, query: str) -> None:
    assert deployment.ask("GET", f"/foreword/audit?{query}", "admin").status_code == 400


@pytest.mark.parametrize(
    "path", ["/foreword/keys?tenant=%00", "/v1/files/%00", "/foreword/audit?action=a%00b"]
)
def test_a_nul_is_refused_on_the_wire_and_counted(deployment: Deployment, path: str) -> None:
    heard = ask(deployment.url, get(path))
    assert heard.status == 400
    assert b"NUL" in heard.data
    metrics = deployment.ask("GET", "/metrics", "monitor").text
    assert 'foreword_wire_refused{code="malformed_http"}' in metrics


@pytest.mark.slow
def test_names_are_no_markup_in_the_report(
    simulator_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(gateway_settings(home, simulator_url)) as url:
        wait_until_ready(url)
        add_collection(url, MARKUP, "The ferry leaves at nine.")
        body = {
            "model": "default",
            "messages": [{"role": "user", "content": MARKUP}],
            "max_tokens": 2,
            "user": MARKUP,
            "foreword": {"collection": MARKUP, "mode": "cag"},
        }
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            client.post("/v1/chat/completions", json=body).raise_for_status()
            page = client.get("/foreword/report?format=html").raise_for_status()
    assert "collection" in page.text
    assert "<img" not in page.text
    assert "<script>alert" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def _replicas(deployment: Deployment) -> list[dict[str, object]]:
    found: list[dict[str, object]] = deployment.ask("GET", "/foreword/replicas", "admin").json()[
        "data"
    ]
    return found
