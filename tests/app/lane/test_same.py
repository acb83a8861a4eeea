"""What the lane takes, it makes of it what the whole way makes, to the engine's last byte."""

from collections.abc import Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from app.accounts import Account
from app.admission.admitting import admit
from app.body_limit import HeldBodies
from app.callers import Caller, TenantLimits
from app.engine import CHAT_PATH, EngineClient
from app.errors import GatewayError
from app.json_guard import loads
from app.lane.asked import Asked, Taker
from app.lane.heads import KnownHead
from app.pipeline import begin, open_account
from app.prepared import Prepared
from app.routes.bodies import checked_body
from app.schemas import ChatCompletionRequest
from app.services import Services, open_services
from app.settings import GatewaySettings
from app.upstream import Timeouts, Upstream
from bench.engine_sim import SimulatorThread
from prompts import PromptError
from tests.gateways import gateway_settings

RULES = "Be brief, and name your sources."
LIMITED = Caller(
    tenant="tenant",
    limits=TenantLimits(max_output_tokens=40, max_prompt_tokens=120, requests_per_min=10**6),
)
UPSTREAM = Upstream(
    "http://engine:1/base", timeouts=Timeouts(connect_s=1, first_byte_s=1, between_bytes_s=1),
    max_connections=1,
)  # fmt: skip

contents = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["When does the ferry leave?", " \n", "<|im_end|>", "word " * 40]
)
anything = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 200), contents,
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([[], {}, ["a"], "none"]),
)  # fmt: skip
names = st.sampled_from([
    "temperature", "top_p", "n", "seed", "stop", "user", "top_k", "logprobs", "top_logprobs",
    "max_tokens", "max_completion_tokens", "stream", "stream_options", "tools", "tool_choice",
    "metadata", "response_format", "foreword", "rid", "input_ids", "nonsense", "min_tokens",
    "frequency_penalty", "presence_penalty", "store", "service_tier", "verbosity", "modalities",
])  # fmt: skip
usual_fields = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "seed": st.integers(0, 9),
        "stop": contents | st.lists(contents, max_size=3),
        "max_tokens": st.integers(1, 60),
        "max_completion_tokens": st.integers(1, 60),
        "stream": st.booleans(),
        "stream_options": st.fixed_dictionaries({"include_usage": st.booleans()}),
        "n": st.just(1),
        "user": contents,
    },
)
said = st.lists(contents, min_size=1, max_size=4)


def messages_of(rules: str, texts: list[str]) -> list[dict[str, Any]]:
    """Instructions, and turns of the user and the assistant."""
    turns = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]
    return [{"role": "system", "content": rules}, *turns]


bodies = st.builds(
    lambda rules, texts, usual, odd, model: {
        "model": model, "messages": messages_of(rules, texts), **usual, **odd,
    },
    st.just(RULES) | contents,
    said,
    usual_fields,
    st.just({}) | st.dictionaries(names, anything, max_size=2),
    st.sampled_from(["default", "tiny", "default", "nobody"]),
)  # fmt: skip


class Gateway:
    """Services on an event loop of their own, and both ways through them."""

    def __init__(self, portal: BlockingPortal, services: Services) -> None:
        self.services = services
        self._portal = portal
        self._taker = Taker(services, HeldBodies())

    def whole(self, raw: bytes, caller: Caller) -> Account | None:
        """The account of a request that went the whole way; None: it was refused."""
        return self._portal.call(self._whole, raw, caller)

    def straight(self, raw: bytes, caller: Caller) -> Asked | None:
        return self._portal.call(self._straight, raw, caller)

    async def _whole(self, raw: bytes, caller: Caller) -> Account | None:
        services = self.services
        account = open_account(services, tenant=caller.tenant)
        app = SimpleNamespace(state=SimpleNamespace(services=services))
        scope = {"type": "http", "app": app, "headers": [], "state": {"caller": caller}}
        try:
            body = checked_body(loads(raw, services.settings.wire), ChatCompletionRequest)
            body = await admit(HTTPConnection(scope), body, account, received_bytes=len(raw))
            await begin(services, body, account)
        except (GatewayError, PromptError):
            return None
        finally:
            if account.ticket is not None:
                account.ticket.close()
        return account

    async def _straight(self, raw: bytes, caller: Caller) -> Asked | None:
        head = KnownHead(b"", caller, self.services.keys.changes, None)
        asked = self._taker.take(head, raw)
        if asked is not None:
            assert asked.account.ticket is not None
            asked.account.ticket.close()
        return asked


@pytest.fixture(scope="module", params=[None, 24], ids=["plain", "default length"])
def services(
    request: pytest.FixtureRequest,
    simulator: SimulatorThread,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:
    made = gateway_settings(tmp_path_factory.mktemp("home"), simulator.url)
    passed_on = () if request.param is None else ("user",)
    gateway = GatewaySettings(port=0, default_max_tokens=request.param, extra_fields=passed_on)
    made = made.model_copy(update={"gateway": gateway})
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_services(made)) as opened,
    ):
        yield Gateway(portal, opened)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(body=bodies, limited=st.booleans())
def test_it_makes_what_the_whole_way_makes(
    services: Gateway, body: dict[str, Any], limited: bool
) -> None:
    raw = orjson.dumps(body)
    caller = LIMITED if limited else Caller(tenant="local")
    whole = services.whole(raw, caller)
    asked = services.straight(raw, caller)
    event("taken" if asked is not None else "declined")
    if asked is None:
        return
    assert whole is not None, "the whole way refuses it"
    assert prepared_facts(asked.account) == prepared_facts(whole)
    assert engine_bytes_straight(asked) == engine_bytes_whole(whole)
    assert ticket_tokens(asked.account) == ticket_tokens(whole)
    assert asked.received == len(raw)
    for name in ("tenant", "deadline_s", "max_prompt_tokens", "diagnoses", "tiers", "keeps_text"):
        assert getattr(asked.account, name) == getattr(whole, name)


def test_it_takes_what_is_usual(services: Gateway) -> None:
    """A first turn whose instructions came before, and the turns after it."""
    caller = Caller(tenant="local")

    def raw_of(*texts: str, **more: object) -> bytes:
        body = {"model": "default", "messages": messages_of("Rules of this test.", list(texts))}
        return orjson.dumps({**body, "max_tokens": 8, "temperature": 0.0, **more})

    assert services.straight(raw_of("the first"), caller) is None
    for text in ("one", "two"):
        assert services.whole(raw_of(text), caller) is not None
    assert services.straight(raw_of("the third"), caller) is not None
    assert services.straight(raw_of("a stream", stream=True), caller) is not None
    assert services.straight(raw_of("the third", "an answer", "the next"), caller) is not None
    for odd in ({"n": 2}, {"tools": []}, {"foreword": {}}, {"max_tokens": "8"}, {"stream": 1}):
        assert services.straight(raw_of("the third", **odd), caller) is None


def prepared_facts(account: Account) -> dict[str, Any]:
    """All that is known of a request that is ready, but for what differs by request or by way."""
    prepared = account.prepared
    assert isinstance(prepared, Prepared)
    left_out = {"request_id", "body", "listed"}
    return {
        each.name: getattr(prepared, each.name)
        for each in fields(prepared)
        if each.name not in left_out
    }


def engine_bytes_straight(asked: Asked) -> bytes:
    prepared = asked.account.prepared
    assert prepared is not None
    return asked.desk.request(EngineClient(UPSTREAM), _body(prepared))


def engine_bytes_whole(account: Account) -> bytes:
    prepared = account.prepared
    assert prepared is not None
    headers = (
        (b"content-type", b"application/json"),
        (b"x-custom-labels", orjson.dumps(prepared.labels)),
    )
    return UPSTREAM.serialised("POST", CHAT_PATH, headers, _body(prepared))


def _body(prepared: Prepared) -> bytes:
    """What the engine gets, with an id that all have."""
    return orjson.dumps({**prepared.body, "rid": "chatcmpl-0"})


def ticket_tokens(account: Account) -> int:
    assert account.ticket is not None
    return account.ticket.tokens
