"""What the gateway won't wait for any longer, on the straight lane and beside it."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.lane.conftest import Answer, Gateway, question, running
from tests.gateways import gateway_settings


@pytest.fixture
def gateway(tokenizer_folder: Path, tmp_path: Path) -> Iterator[Gateway]:
    """In front of an engine that takes seconds for what is asked here."""
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=1))
    with (
        SimulatorThread(config) as engine,
        running(gateway_settings(tmp_path / "data", engine.url), tmp_path / "log") as started,
    ):
        while not started.ask(question("When does the ferry leave?")).straight:
            pass
        yield started


def _cut(gateway: Gateway) -> None:
    """As the server does when the time of a shutdown is over."""
    gateway.services.stopping.cut()
    for each in gateway.protocols():
        each.cut()


def _cut_answer(gateway: Gateway, *, streams: bool, whole_way: bool) -> Answer:
    heard: list[Answer] = []
    body = question("When does the ferry leave?", stream=streams, max_tokens=2000)
    with gateway.connected() as connection:
        asking = threading.Thread(
            target=lambda: heard.append(gateway.ask_on(connection, body, whole_way=whole_way))
        )
        asking.start()
        while not any(each.under_way for each in gateway.protocols()):
            asking.join(0.01)
        asking.join(0.5 if streams else 0)
        [protocol] = [each for each in gateway.protocols() if each.under_way]
        protocol.loop.call_soon_threadsafe(_cut, gateway)
        asking.join(60)
        assert connection.recv(1) == b""
    [answer] = heard
    return answer


@pytest.mark.parametrize("whole_way", [False, True], ids=["straight", "whole way"])
def test_a_whole_answer_becomes_an_error(gateway: Gateway, whole_way: bool) -> None:
    answer = _cut_answer(gateway, streams=False, whole_way=whole_way)
    assert answer.straight is not whole_way
    assert answer.status == 503
    head = dict(answer.head)
    assert int(head["retry-after"]) > 0
    assert head["connection"] == "close"
    assert json.loads(answer.body)["error"]["code"] == "gateway_stopping"
    _is_recorded(gateway, answer, 503)


@pytest.mark.parametrize("whole_way", [False, True], ids=["straight", "whole way"])
def test_a_stream_ends_in_an_error_event(gateway: Gateway, whole_way: bool) -> None:
    answer = _cut_answer(gateway, streams=True, whole_way=whole_way)
    assert answer.straight is not whole_way
    assert answer.status == 200
    events = answer.body.decode().strip().split("\n\n")
    assert len(events) > 1
    last = json.loads(events[-1].removeprefix("data: "))
    assert last["error"]["code"] == "gateway_stopping"
    _is_recorded(gateway, answer, 200)


def _is_recorded(gateway: Gateway, answer: Answer, code: int) -> None:
    row, line = gateway.row(answer.request_id), gateway.line(answer.request_id)
    assert (row["status"], row["error_code"]) == ("error", "gateway_stopping")
    assert (line["code"], line["status"]) == (code, "error")
    assert line["error_code"] == "gateway_stopping"
