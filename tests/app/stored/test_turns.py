"""Turns across restarts and kills, compaction, and tenants: over HTTP, on a simulated engine."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.stored.test_conversations_api import ask, texts
from tests.app.test_shutdown import serving
from tests.gateways import gateway_settings, running_gateway, wait_until_ready


def sdk(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)


@contextmanager
def client_of(home: Path, engine_url: str) -> Iterator[openai.OpenAI]:
    with running_gateway(gateway_settings(home, engine_url)) as url:
        wait_until_ready(url)
        with sdk(url) as client:
            yield client


def test_a_conversation_goes_on_after_a_restart_with_all_that_the_engine_holds(
    simulator: SimulatorThread, tmp_path: Path
) -> None:
    with client_of(tmp_path, simulator.url) as client:
        made = client.conversations.create()
        for number in range(4):
            before = ask(client, f"Before the restart, {number}?", conversation=made.id)
        chained = ask(client, "Alone?", previous_response_id=ask(client, "Is it?").id)
        said = texts(client, made.id)
    with client_of(tmp_path, simulator.url) as client:
        assert texts(client, made.id) == said
        after = ask(client, "And after it?", conversation=made.id)
        # All but the last token of the answer, of which there is no KV, and page rounding.
        assert after.foreword["cached_tokens"] >= before.usage.total_tokens - 1 - 16
        more = ask(client, "Still?", previous_response_id=chained.id)
        assert more.foreword["cached_tokens"] >= chained.usage.total_tokens - 1 - 16


@pytest.mark.slow
def test_a_kill_leaves_whole_turns_only(tokenizer_folder: Path, tmp_path: Path) -> None:
    """Five kills, at moments from before the first event to after the last."""
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=4))
    with SimulatorThread(config) as engine:
        talk, told = None, list[str]()
        for number, events in enumerate((0, 1, 5, 25, 10_000)):
            with serving(tmp_path, engine.url) as gateway, sdk(gateway.url) as client:
                talk = talk or client.conversations.create().id
                _take_unheard(told, texts(client, talk), number - 1)
                told += _killed_turn(client, gateway.process, talk, number, events)
        with serving(tmp_path, engine.url) as gateway, sdk(gateway.url) as client:
            assert talk is not None
            _take_unheard(told, texts(client, talk), number)
            assert len(told) >= 2
            deadline = time.monotonic() + 30
            while True:  # the dead gateway's last turn is over within its lease
                try:
                    ask(client, "Are you there?", conversation=talk)
                    break
                except openai.ConflictError:
                    assert time.monotonic() < deadline
                    time.sleep(0.5)
            assert len(texts(client, talk)) == len(told) + 2


def _take_unheard(told: list[str], kept: list[str], number: int) -> None:
    """Add the last turn if it was written, and its client hadn't heard so before the kill."""
    if len(kept) > len(told):
        question, answer = kept[len(told) :]
        assert question == f"Kill {number}?"
        assert answer
        told += [question, answer]
    assert kept == told


def _killed_turn(
    client: openai.OpenAI, process: Any, talk: str, number: int, events: int
) -> list[str]:
    """What the conversation must have of a turn whose gateway is killed after so many events."""
    deadline, question = time.monotonic() + 30, f"Kill {number}?"
    while True:
        try:
            stream = ask(client, question, conversation=talk, stream=True, max_output_tokens=24)
            break
        except openai.ConflictError:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    answer = None
    try:
        for at, event in enumerate(stream):
            if at == events:
                process.send_signal(signal.SIGKILL)
            if event.type == "response.incomplete":
                answer = event.response.output_text
    except (httpx.TransportError, openai.APIError):
        pass
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(timeout=120)
    return [] if answer is None else [question, answer]


def test_a_long_conversation_is_compacted_seldom_and_tells_the_cost(
    tokenizer_folder: Path, tmp_path: Path
) -> None:
    config = SimulatorConfig(
        model_path=tokenizer_folder, clock=ClockConfig(speedup=50), context_tokens=1024
    )
    options = {"foreword": {"compaction": {"at": 0.6, "keep": 0.2}}}
    with SimulatorThread(config) as engine, client_of(tmp_path, engine.url) as client:
        plain = client.conversations.create()
        talk = client.conversations.create(extra_body=options)
        costs, verdicts = [], list[str]()
        for number in range(40):
            text = f"Turn {number} of the talk about ferries, harbours and islands."
            answer = ask(client, text, conversation=talk.id)
            if cost := answer.foreword.get("compaction"):
                costs.append((number, cost))
            else:
                verdicts.append(answer.foreword["verdict"])
        assert 2 <= len(costs) <= 8, costs
        # In large steps: many turns lie between, which all re-use what is there.
        numbers = [number for number, _ in costs]
        assert min(b - a for a, b in pairwise(numbers)) >= 3
        assert set(verdicts[1:]) == {"hit"}
        for _, cost in costs:
            assert cost["tokens_before"] >= 0.6 * 1024
            assert cost["tokens_after"] < cost["tokens_before"]
            assert 0 < cost["prefill_lost"] <= cost["tokens_after"]
            # The summary's own prompt goes on from what the engine holds.
            assert cost["summary_cached_tokens"] >= 16
            assert cost["summary_tokens"] > 0
        described: Any = client.conversations.retrieve(talk.id)
        assert described.foreword["summary"]
        assert len(texts(client, talk.id)) == 80  # all that was said is still told
        with pytest.raises(openai.BadRequestError, match="context is 1,024 tokens") as refused:
            _talk_on(client, plain.id, turns=80)
        assert refused.value.code == "context_length_exceeded"


def _talk_on(client: openai.OpenAI, talk: str, *, turns: int) -> None:
    for number in range(turns):
        ask(client, f"Turn {number} of the talk about harbours.", conversation=talk)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"compaction": {"at": 0.5, "keep": 0.4}}, "foreword.compaction"),
        ({"compaction": {"at": 1.5}}, "foreword.compaction.at"),
        ({"window": 3}, "foreword.window"),
    ],
)
def test_compaction_in_small_steps_is_refused(
    client: openai.OpenAI, given: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.conversations.create(extra_body={"foreword": given})
    assert refused.value.param == param


def test_an_isolated_conversation_is_not_answered_from_a_collection(
    client: openai.OpenAI,
) -> None:
    store = client.vector_stores.create(name="apart")
    file = client.files.create(file=("a.txt", b"The ferry leaves at nine."), purpose="assistants")
    client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    made = client.conversations.create(extra_body={"foreword": {"isolated": True}})
    search: Any = {"type": "file_search", "vector_store_ids": [store.id]}
    with pytest.raises(openai.BadRequestError, match="kept apart"):
        ask(client, "When?", conversation=made.id, tools=[search])
    shared = client.conversations.create()
    first = ask(client, "When?", conversation=shared.id, tools=[search])
    second = ask(client, "And back?", conversation=shared.id, tools=[search])
    assert second.foreword["cached_tokens"] >= first.usage.total_tokens - 17
    results = client.conversations.items.list(shared.id, include=["file_search_call.results"])
    assert "file_search_call" in {item.type for item in results}
