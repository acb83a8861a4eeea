"""Pages of origins that the operator lists may ask and read the answers; no others may."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from app.admission.direct import open_store
from app.admission.keys import NewKey
from app.admission.store import OPERATOR
from app.callers import Role, TenantLimits
from app.settings import Settings, WireSettings
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready
from tests.tokenizer_folders import CHATML_TOOLS, write_tokenizer

CHAT = "/v1/chat/completions"
LISTED, UNLISTED = "https://app.example", "https://evil.example"
ALLOWS = "access-control-allow-origin"
ASKS = {"access-control-request-method": "POST"}
# As openai-node 6 has them in a browser.
SDK_HEADERS = (
    "authorization,content-type,idempotency-key,openai-organization,openai-project,"
    "x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,"
    "x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout"
)


def listing(settings: Settings) -> Settings:
    return settings.model_copy(update={"wire": WireSettings(origins=(LISTED,))})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatorThread]:
    folder = write_tokenizer(tmp_path_factory.mktemp("models") / "tiny", chat_template=CHATML_TOOLS)
    config = SimulatorConfig(model_path=folder, clock=ClockConfig(speedup=20))
    with SimulatorThread(config) as running:
        yield running


@pytest.fixture(scope="module")
def keyed(
    engine: SimulatorThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[httpx.Client, str]]:
    """A gateway with keys, and the key of a tenant with limits."""
    home = tmp_path_factory.mktemp("home")
    with open_store(home, None) as store:
        key = store.create(NewKey(tenant="shop", role=Role.ADMIN), by=OPERATOR).key
        store.set_limits("shop", TenantLimits(requests_per_min=600), by=OPERATOR)
    with running_gateway(listing(gateway_settings(home, engine.url))) as url:
        wait_until_ready(url)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client, key


@pytest.fixture(scope="module")
def keyless(
    engine: SimulatorThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    home = tmp_path_factory.mktemp("home")
    with running_gateway(listing(gateway_settings(home, engine.url))) as url:
        wait_until_ready(url)
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            yield client


def chat(**more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "Hello?"}]
    return {"model": "default", "messages": said, "max_tokens": 4, **more}


@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/v1/models", "/v1/files", "/nowhere"])
def test_a_preflight_needs_no_key(keyed: tuple[httpx.Client, str], path: str) -> None:
    """Browsers never send one with it."""
    asked = {"origin": LISTED, **ASKS, "access-control-request-headers": SDK_HEADERS}
    answer = keyed[0].options(path, headers=asked)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers[ALLOWS] == LISTED
    assert "Origin" in answer.headers["vary"]
    assert int(answer.headers["access-control-max-age"]) > 0
    allowed = set(answer.headers["access-control-allow-headers"].split(", "))
    assert allowed >= {*SDK_HEADERS.split(","), "authorization", "content-type"}
    assert {"GET", "POST", "DELETE"} <= set(
        answer.headers["access-control-allow-methods"].split(", ")
    )
    assert "access-control-allow-credentials" not in answer.headers


def test_names_that_are_none_are_not_sent_back(keyless: httpx.Client) -> None:
    asked = {"origin": LISTED, **ASKS, "access-control-request-headers": "x-a, b c, <d>, ,X-E"}
    allowed = keyless.options(CHAT, headers=asked).headers["access-control-allow-headers"]
    assert allowed.endswith(", x-a, x-e")


def test_a_page_of_the_internet_may_ask_a_machine_at_home(keyless: httpx.Client) -> None:
    asked = {"origin": LISTED, **ASKS, "access-control-request-private-network": "true"}
    answer = keyless.options(CHAT, headers=asked)
    assert answer.headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize("stream", [False, True])
def test_a_listed_page_may_read_answers(keyed: tuple[httpx.Client, str], stream: bool) -> None:
    """The second time, too: the lane knows no pages."""
    client, key = keyed
    headers = {"origin": LISTED, "authorization": f"Bearer {key}"}
    for _ in range(3):
        answer = client.post(CHAT, json=chat(stream=stream), headers=headers)
        assert answer.status_code == 200
        assert answer.headers[ALLOWS] == LISTED
        assert answer.headers["vary"] == "Origin"
        exposed = set(answer.headers["access-control-expose-headers"].split(", "))
        ours = {name for name in answer.headers if name.startswith("x-ratelimit-")}
        assert ours
        assert exposed >= {"x-request-id", "retry-after", *ours}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [(CHAT, {"model": "nobody"}, 401), (CHAT, {"model": 1}, 400), ("/nowhere", {}, 404)],
)
def test_refusals_can_be_read_too(
    keyed: tuple[httpx.Client, str], path: str, body: dict[str, Any], status: int
) -> None:
    client, key = keyed
    headers = {"origin": LISTED} | ({} if status == 401 else {"authorization": f"Bearer {key}"})
    answer = client.post(path, json=body, headers=headers)
    assert (answer.status_code, answer.headers[ALLOWS]) == (status, LISTED)
    assert answer.headers["vary"] == "Origin"


def test_an_unlisted_page_is_told_nothing(
    keyed: tuple[httpx.Client, str], keyless: httpx.Client
) -> None:
    client, key = keyed
    headers = {"origin": UNLISTED, "authorization": f"Bearer {key}"}
    for answer in (
        client.options(CHAT, headers={"origin": UNLISTED, **ASKS}),
        client.post(CHAT, json=chat(), headers=headers),
        keyless.options(CHAT, headers={"origin": UNLISTED, **ASKS}),
        keyless.post(CHAT, json=chat(), headers={"origin": UNLISTED}),
        keyless.get("/v1/models", headers={"origin": f"{LISTED}.evil.example"}),
        keyless.get("/v1/models", headers={"origin": "null"}),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert answer.headers["vary"] == "Origin"
    assert keyless.post(CHAT, json=chat(), headers={"origin": UNLISTED}).status_code == 403


def test_without_an_origin_nothing_is_added_but_for_caches(keyless: httpx.Client) -> None:
    answered = keyless.post(CHAT, json=chat())
    assert answered.status_code == 200
    assert not {"vary", ALLOWS} & set(answered.headers)
    assert keyless.get("/v1/models").headers["vary"] == "Origin"


def test_a_listed_page_needs_no_key_where_nobody_does(keyless: httpx.Client) -> None:
    answer = keyless.get("/v1/models", headers={"origin": LISTED})
    assert (answer.status_code, answer.headers[ALLOWS]) == (200, LISTED)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("https://App.Example/", "https://app.example"),
        ("https://app.example:443", "https://app.example"),
        ("http://app.example:80", "http://app.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("capacitor://localhost", "capacitor://localhost"),
    ],
)
def test_origins_are_taken_as_browsers_send_them(given: str, taken: str) -> None:
    assert WireSettings(origins=(given,)).origins == (taken,)


@pytest.mark.parametrize(
    "given",
    ["*", "null", "", "app.example", "https://*.example", "https://a/b", "https://u@a",
     "https://a:0", "https://a:99999", "https://ä.example", "https://a https://b"],
)  # fmt: skip
def test_what_no_browser_sends_is_refused(given: str) -> None:
    """It would be compared for ever and never be equal."""
    with pytest.raises(ValidationError, match="origin"):
        WireSettings(origins=(given,))


def test_a_gateway_that_lists_nobody_answers_no_preflight(
    engine: SimulatorThread, tmp_path: Path
) -> None:
    with running_gateway(gateway_settings(tmp_path, engine.url)) as url:
        answer = httpx.options(f"{url}{CHAT}", headers={"origin": url, **ASKS}, trust_env=False)
    assert answer.status_code == 405
    assert ALLOWS not in answer.headers
