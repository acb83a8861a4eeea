"""An engine that serves one tenant's KV to another gets no requests; an untried one does."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from app.engine import EngineClient
from app.errors import EngineLeaksError
from app.isolation import Isolation, IsolationVerdict, check_isolation, judge
from app.probes import low_priority
from app.replica import Replica
from app.upstream import Timeouts, Upstream
from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.conftest import RealEngine
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

PROVEN, UNPROVEN, LEAKS = IsolationVerdict


@contextmanager
def simulated(folder: Path, **settings: object) -> Iterator[SimulatorThread]:
    config = SimulatorConfig(model_path=folder, clock=ClockConfig(speedup=20), **settings)  # type: ignore[arg-type]
    with SimulatorThread(config) as simulator:
        yield simulator


def order(simulator: SimulatorThread, kind: str, **fault: object) -> None:
    body = {"kind": kind, "times": None, **fault}
    url = f"{simulator.url}/simulator/faults"
    httpx.post(url, json=body, trust_env=False).raise_for_status()


def heal(simulator: SimulatorThread) -> None:
    httpx.delete(f"{simulator.url}/simulator/faults", trust_env=False).raise_for_status()


def tried(url: str) -> Isolation:
    async def run() -> Isolation:
        timeouts = Timeouts(connect_s=5, first_byte_s=60, between_bytes_s=60)
        client = EngineClient(Upstream(url, timeouts=timeouts, max_connections=2))
        try:
            return await check_isolation(client, await client.info())
        finally:
            client.close()

    return anyio.run(run)


def ask(gateway: str) -> httpx.Response:
    body = {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    return httpx.post(f"{gateway}/v1/chat/completions", json=body, trust_env=False, timeout=30)


@pytest.mark.parametrize(
    ("same", "other", "none", "verdict"),
    [
        (32, 0, 0, PROVEN),
        (64, 1, 3, PROVEN),  # with pages of one token, first tokens are equal by chance
        (32, 32, 0, LEAKS),
        (32, 0, 16, LEAKS),
        (None, 16, None, LEAKS),
        (0, 0, 0, UNPROVEN),
        (None, None, None, UNPROVEN),
        (32, 0, None, UNPROVEN),
    ],
)
def test_the_verdict_follows_from_what_was_re_used(
    same: int | None, other: int | None, none: int | None, verdict: IsolationVerdict
) -> None:
    found = judge(same_salt=same, other_salt=other, no_salt=none)
    assert found.verdict is verdict
    assert (found.problem is None) is (verdict is PROVEN)


@pytest.mark.parametrize(
    ("settings", "priority"),
    [
        ({}, None),
        ({"enable_priority_scheduling": True}, -1000),
        (
            {"enable_priority_scheduling": True, "schedule_low_priority_values_first": True},
            1000,
        ),
    ],
)
def test_probes_may_wait_where_the_engine_knows_priorities(
    settings: dict[str, object], priority: int | None
) -> None:
    assert low_priority(settings) == priority


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_an_engine_that_honours_salts_is_proven(tokenizer_folder: Path, page_size: int) -> None:
    with simulated(tokenizer_folder, page_size=page_size) as simulator:
        assert tried(simulator.url) == Isolation(verdict=PROVEN)


def test_an_engine_with_priorities_is_proven_by_requests_that_may_wait(
    tokenizer_folder: Path,
) -> None:
    with simulated(tokenizer_folder, priority_scheduling=True) as simulator:
        assert tried(simulator.url).verdict is PROVEN


def test_an_engine_without_a_cache_report_is_proven_too(tokenizer_folder: Path) -> None:
    with simulated(tokenizer_folder, cache_report=False) as simulator:
        assert tried(simulator.url).verdict is PROVEN


def test_an_engine_that_ignores_salts_leaks(tokenizer_folder: Path) -> None:
    with simulated(tokenizer_folder) as simulator:
        order(simulator, "ignore_salts")
        found = tried(simulator.url)
    assert found.verdict is LEAKS
    assert found.problem == "a prompt with another salt re-used 32 tokens of a salted one"


def test_a_gateway_refuses_a_leaking_engine_and_says_so(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    with simulated(tokenizer_folder) as simulator:
        order(simulator, "ignore_salts")
        with running_gateway(gateway_settings(tmp_path, simulator.url)) as url:
            ready = httpx.get(f"{url}/readyz", trust_env=False)
            answer = ask(url)
    assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    (reason,) = ready.json()["reasons"]
    assert "serves one tenant's KV to another" in reason
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_not_isolated"
    # Why, and where, is the operator's: clients aren't told of engines and their addresses.
    told = answer.json()["error"]["message"]
    assert "doesn't keep tenants apart" in told
    assert "127.0.0.1" not in told


def test_a_gateway_serves_an_engine_that_cannot_be_tried_and_says_so(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    with simulated(tokenizer_folder) as simulator:
        order(simulator, "error", path="/generate", status=404)
        with running_gateway(gateway_settings(tmp_path, simulator.url)) as url:
            wait_until_ready(url)
            ready = httpx.get(f"{url}/readyz", trust_env=False).json()
            answer = ask(url)
    assert ready["engine"]["isolation"] == "unproven"
    assert any("not proven that the engine keeps tenants apart" in r for r in ready["reasons"])
    assert answer.status_code == 200


def test_a_proven_engine_is_said_to_be_and_nothing_is_counted_for_a_template(
    gateway: str, simulator: SimulatorThread
) -> None:
    ready = httpx.get(f"{gateway}/readyz", trust_env=False).json()
    assert ready["engine"]["isolation"] == "proven"
    told = httpx.get(f"{gateway}/foreword/report", trust_env=False).json()["cross_check"]
    assert (told["difference_tokens"], told["templates"]) == (0, [])


@asynccontextmanager
async def watched(simulator: SimulatorThread, *, try_again_s: float) -> AsyncIterator[Replica]:
    timeouts = Timeouts(connect_s=5, first_byte_s=60, between_bytes_s=60)
    client = EngineClient(Upstream(simulator.url, timeouts=timeouts, max_connections=2))
    folder = simulator.config.model_path
    try:
        yield Replica("engine-0", client, tokenizer_folder=folder, try_again_s=try_again_s)
    finally:
        client.close()


@pytest.mark.anyio
async def test_a_refused_engine_is_met_again_once_it_was_away(tokenizer_folder: Path) -> None:
    with simulated(tokenizer_folder) as simulator:
        async with watched(simulator, try_again_s=60) as replica:
            order(simulator, "ignore_salts")
            await replica.refresh()
            heal(simulator)
            await replica.refresh()
            with pytest.raises(EngineLeaksError):
                replica.view()
            order(simulator, "error", path="/ready", status=503, times=1)
            await replica.refresh()
            await replica.refresh()
            assert replica.view().isolation.verdict is PROVEN
            assert replica.problem is None


@pytest.mark.anyio
async def test_a_refused_engine_must_prove_itself_before_it_is_served(
    tokenizer_folder: Path,
) -> None:
    with simulated(tokenizer_folder) as simulator:
        async with watched(simulator, try_again_s=0) as replica:
            order(simulator, "ignore_salts")
            await replica.refresh()
            heal(simulator)
            order(simulator, "error", path="/generate", status=404, times=1)
            await replica.refresh()
            with pytest.raises(EngineLeaksError):
                replica.view()
            await replica.refresh()
            assert replica.view().isolation.verdict is PROVEN


@pytest.mark.anyio
async def test_an_engine_that_was_unproven_is_tried_again(tokenizer_folder: Path) -> None:
    with simulated(tokenizer_folder) as simulator:
        async with watched(simulator, try_again_s=0) as replica:
            order(simulator, "error", path="/generate", status=404, times=1)
            await replica.refresh()
            assert replica.view().isolation.verdict is UNPROVEN
            order(simulator, "ignore_salts")
            await replica.refresh()
            with pytest.raises(EngineLeaksError):
                replica.view()


@pytest.mark.engine
def test_the_real_engine_is_proven(engine: RealEngine) -> None:
    assert tried(engine.url) == Isolation(verdict=PROVEN)
