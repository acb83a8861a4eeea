"""Two real engines behind one gateway: one tier between them, each restarted alone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from app.stack.running import RunningStack
from app.stack.settings import EngineOptions, StackSettings
from app.stack.stack import start_stack
from cache.tiers import TierSettings
from tests.app.otlp_collector import Collector, running_collector
from tests.app.stack.children import eventually
from tests.engines import flush

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

RESTART_S = 300.0
LONG = "A ferry crosses the strait four times a day, and it carries dogs for free. " * 20


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture(scope="module")
def stack(
    engine_cache: Path,
    tiny_model: Path,
    collector: Collector,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningStack]:
    traces = {"FOREWORD_TELEMETRY__OTLP_URL": collector.url}
    settings = StackSettings(
        home=tmp_path_factory.mktemp("replicas"),
        cache=engine_cache,
        base_env={**os.environ, "FOREWORD_RETRIEVAL__EMBEDDER": "hashing", **traces},
        traces_url=f"{collector.url}/v1/traces",
        model=str(tiny_model),
        engine=EngineOptions(pool_tokens=8000),
        replicas=2,
        tiers=TierSettings(ram_gb=0.25, ssd_gb=None),
        port=0,
        cpu=True,
    )
    with start_stack(settings, say=print) as running:
        assert eventually(lambda: states(running) == ["ready", "ready"], within_s=60.0)
        yield running


def get(stack: RunningStack, path: str) -> Any:
    return httpx.get(f"{stack.url}{path}", timeout=30, trust_env=False).json()


def states(stack: RunningStack) -> list[str]:
    return [replica["state"] for replica in get(stack, "/foreword/replicas")["data"]]


def operate(stack: RunningStack, name: str, verb: str) -> None:
    url = f"{stack.url}/foreword/replicas/{name}/{verb}"
    httpx.post(url, timeout=30, trust_env=False).raise_for_status()


def ask(stack: RunningStack, text: str) -> dict[str, Any]:
    """The `foreword` block of an answer."""
    body = {
        "model": "default",
        "max_tokens": 2,
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    }
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=300, trust_env=False)
    told: dict[str, Any] = answer.raise_for_status().json()["foreword"]
    return told


def test_each_engine_is_a_replica_of_the_gateway_with_events_of_its_own(
    stack: RunningStack,
) -> None:
    told = get(stack, "/foreword/replicas")["data"]
    assert [replica["name"] for replica in told] == ["engine-0", "engine-1"]
    assert tuple(replica["url"] for replica in told) == stack.engine_urls
    assert all(replica["cache"]["kv_events"] for replica in told)
    assert {"tier", "engine-0", "engine-1", "gateway"} == set(stack.pids)


def test_a_prompt_goes_back_to_the_engine_that_holds_it(stack: RunningStack) -> None:
    first = ask(stack, "Where does it go? " + LONG)
    again = [ask(stack, "Where does it go? " + LONG) for _ in range(3)]
    assert {told["replica"] for told in again} == {first["replica"]}
    assert all(told["cached_by_tier"]["gpu"] > 100 for told in again)


def test_an_engine_goes_on_with_the_gateways_trace(
    stack: RunningStack, collector: Collector
) -> None:
    ask(stack, "Who sees all of it?")

    def whole(spans: list[Span]) -> bool:
        ours = {span.trace_id for span in spans if span.name == "POST /v1/chat/completions"}
        return any(span.name == "prefill_forward" and span.trace_id in ours for span in spans)

    collector.wait(whole)


def test_what_one_engine_computed_the_other_loads_from_the_tier(stack: RunningStack) -> None:
    text = "Computed on one, asked on the other. " + LONG
    operate(stack, "engine-1", "cordon")
    assert ask(stack, text)["replica"] == "engine-0"
    flush(stack.engine_urls[0])  # only once it has stored all into the tier
    operate(stack, "engine-1", "uncordon")
    operate(stack, "engine-0", "cordon")
    told = ask(stack, text)
    operate(stack, "engine-0", "uncordon")
    assert told["replica"] == "engine-1"
    tiers = told["cached_by_tier"]
    assert (tiers.get("ram") or tiers.get("storage") or 0) > 100, told


def test_a_killed_engine_is_restarted_alone_while_the_other_answers(stack: RunningStack) -> None:
    before = stack.pids
    os.kill(before["engine-1"], signal.SIGKILL)
    answered = {ask(stack, f"Question {number}. " + LONG)["replica"] for number in range(4)}
    assert answered == {"engine-0"}
    assert eventually(
        lambda: stack.restarts("engine-1") == 1 and states(stack) == ["ready", "ready"],
        within_s=RESTART_S,
    )
    after = stack.pids
    assert after["engine-1"] != before["engine-1"]
    assert {n: after[n] for n in ("tier", "engine-0", "gateway")} == {
        n: before[n] for n in ("tier", "engine-0", "gateway")
    }
