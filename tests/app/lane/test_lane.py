"""A request that goes straight is answered, written down and logged as one that goes the whole way.

Each head is new to the gateway once, so that the first request of a test goes the whole way.
"""

import json
import socket
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.admission.store import OPERATOR
from app.callers import Role, TenantLimits
from app.wire.cycle import Cycle
from bench.engine_sim import SimulatorThread
from tests.app.lane.conftest import Answer, Gateway, heard, question, running
from tests.gateways import gateway_settings

# What differs from one request to the next.
OF_ITS_OWN = {
    "request_id", "id", "created", "at", "ttft_s", "e2e_s", "timestamp", "seconds", "sent_bytes",
}  # fmt: skip


@pytest.fixture
def warm(gateway: Gateway) -> Gateway:
    """Heads and rules are known, and the engine has computed what the tests ask."""
    for _ in range(3):
        gateway.ask(question("When does the ferry leave?"), whole_way=True)
    gateway.ask(question("When does the ferry leave?"))
    return gateway


def without_its_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_its_own(v) for k, v in value.items() if k not in OF_ITS_OWN}
    return [without_its_own(v) for v in value] if isinstance(value, list) else value


def events_of(body: bytes) -> list[Any]:
    found = [part.removeprefix(b"data: ") for part in body.split(b"\n\n") if part]
    return [each if each == b"[DONE]" else without_its_own(json.loads(each)) for each in found]


def text_of(body: bytes) -> str:
    """All that a stream says, however it was cut into events."""
    chunks = [each for each in events_of(body) if each != b"[DONE]"]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def same_records(gateway: Gateway, straight: Answer, whole: Answer) -> None:
    """Rows and log lines."""
    for read in (gateway.row, gateway.line):
        one, other = read(straight.request_id), read(whole.request_id)
        assert without_its_own(one) == without_its_own(other)
        assert one.keys() == other.keys()
    for each in (straight, whole):
        assert gateway.line(each.request_id)["sent_bytes"] == len(each.body)
    row = gateway.row(straight.request_id)
    assert row["ttft_s"] is None or 0 < row["ttft_s"] <= row["e2e_s"]


@pytest.mark.parametrize("more", [{}, {"seed": 3, "stop": ["zq"]}, {"n": 1, "user": "me"}])
def test_whole_answers_are_the_same(warm: Gateway, more: dict[str, Any]) -> None:
    body = question("When does the ferry leave?", **more)
    straight, whole = warm.ask(body), warm.ask(body, whole_way=True)
    assert (straight.straight, whole.straight) == (True, False)
    assert straight.status == whole.status == 200
    assert straight.names() == whole.names()
    assert without_its_own(json.loads(straight.body)) == without_its_own(json.loads(whole.body))
    assert json.loads(straight.body)["id"] == straight.request_id
    same_records(warm, straight, whole)


@pytest.mark.parametrize("options", [None, {"include_usage": True}, {"include_usage": False}])
def test_streams_are_the_same(warm: Gateway, options: dict[str, bool] | None) -> None:
    more = {} if options is None else {"stream_options": options}
    body = question("When does the ferry leave?", stream=True, **more)
    straight, whole = warm.ask(body), warm.ask(body, whole_way=True)
    assert (straight.straight, whole.straight) == (True, False)
    assert straight.names() == whole.names()
    assert text_of(straight.body) == text_of(whole.body) != ""
    assert events_of(straight.body)[-2:] == events_of(whole.body)[-2:]
    same_records(warm, straight, whole)


def test_a_conversation_goes_on_the_same(warm: Gateway) -> None:
    """Each turn both ways, the answer of the straight one sent back."""
    turns: list[str] = []
    for text in ("When does the ferry leave?", "And from where?", "How long does it take?"):
        straight = warm.ask(question(text, *turns))
        whole = warm.ask(question(text, *turns), whole_way=True)
        assert straight.status == whole.status == 200
        said = [json.loads(each.body)["choices"][0]["message"] for each in (straight, whole)]
        assert said[0] == said[1]
        rows = [warm.row(each.request_id) for each in (straight, whole)]
        assert rows[0]["prompt_digest"] == rows[1]["prompt_digest"]
        turns += [text, said[0]["content"]]
    assert straight.straight


def test_what_is_refused_is_refused_in_the_same_words(warm: Gateway) -> None:
    for more in (
        {"model": "nobody"},
        {"max_tokens": 0},
        {"max_tokens": 10**6},
        {"nonsense": 1},
        {"rid": "mine"},
        {"temperature": 1e9},
        {"messages": []},
    ):
        body = question("When does the ferry leave?", **more)
        one, other = warm.ask(body), warm.ask(body, whole_way=True)
        assert not one.straight
        assert one.status == other.status >= 400
        assert one.body == other.body


def test_an_engine_that_fails_is_told_of_in_the_same_words(
    warm: Gateway, engine: SimulatorThread
) -> None:
    body = question("When does the ferry leave?")
    for streams in (False, True):
        answers = []
        for whole_way in (False, True):
            fault = {"kind": "error", "status": 400, "path": "/v1/chat/completions"}
            httpx.post(f"{engine.url}/simulator/faults", json=fault).raise_for_status()
            answers.append(warm.ask(body | {"stream": streams}, whole_way=whole_way))
        straight, whole = answers
        assert (straight.straight, whole.straight) == (True, False)
        assert straight.status == whole.status == 400
        assert straight.names() == whole.names()
        assert straight.body == whole.body
        same_records(warm, straight, whole)


def test_requests_of_one_connection_go_straight_one_after_the_other(warm: Gateway) -> None:
    body = question("When does the ferry leave?")
    with warm.connected() as connection:
        ways = [warm.ask_on(connection, body, whole_way=odd) for odd in (False, True, False, False)]
    assert [each.straight for each in ways] == [True, False, True, True]


def test_a_body_may_come_after_its_head(warm: Gateway) -> None:
    """So many clients send them, and so networks cut them."""
    request = warm.request(question("When does the ferry leave?"))
    body_at = request.index(b"\r\n\r\n") + 4
    with warm.connected() as connection:
        for stops in ([body_at], [body_at, body_at + 20], [body_at + 7]):
            taken = warm.lane.taken
            for start, stop in pairwise((0, *stops, len(request))):
                connection.sendall(request[start:stop])
            assert heard(connection)[0] == 200
            assert warm.lane.taken == taken + 1


def test_a_body_that_is_late_goes_the_whole_way(warm: Gateway) -> None:
    request = warm.request(question("When does the ferry leave?"))
    body_at = request.index(b"\r\n\r\n") + 4
    taken = warm.lane.taken
    with warm.connected() as connection:
        connection.sendall(request[: body_at + 5])
        _until(
            lambda: any(isinstance(p.cycle, Cycle) and p.cycle.more_body for p in warm.protocols())
        )
        connection.sendall(request[body_at + 5 :])
        assert heard(connection)[0] == 200
        assert warm.lane.taken == taken


def test_a_body_that_comes_by_bytes_is_soon_the_parsers(warm: Gateway) -> None:
    """The bounds on slow bodies are the parser's: a byte now and then may not put them off."""
    request = warm.request(question("When does the ferry leave? " * 200))
    sent = request.index(b"\r\n\r\n") + 4
    taken = warm.lane.taken
    with warm.connected() as connection:
        connection.sendall(request[:sent])
        while not any(isinstance(p.cycle, Cycle) and p.cycle.more_body for p in warm.protocols()):
            assert sent < len(request) - 1, "the parser was given nothing of it"
            connection.sendall(request[sent : sent + 1])
            sent += 1
            time.sleep(0.02)
        connection.sendall(request[sent:])
        assert heard(connection)[0] == 200
        assert warm.lane.taken == taken


def test_what_goes_on_with_a_head_is_no_request(warm: Gateway) -> None:
    """The read before ended within a head, in whose last header lies all that comes now."""
    body = question("When does the ferry leave?")
    known, new = warm.request(body), warm.request(body, whole_way=True)
    for head, status, request in ((b"Host: here\r\n", 400, known), (b"", 200, new)):
        taken, learnt = warm.lane.taken, len(warm.lane.heads)
        with warm.connected() as connection:
            begun = b"POST /v1/chat/completions HTTP/1.1\r\n" + head + b"x-more: "
            connection.sendall(known + begun)
            assert heard(connection)[0] == 200
            connection.sendall(request)
            assert heard(connection)[0] == status
        assert warm.lane.taken == taken
        assert len(warm.lane.heads) == learnt


def test_a_head_alone_isnt_a_request(warm: Gateway) -> None:
    """Nobody is answered before all has come, and a client that leaves leaves nothing behind."""
    request = warm.request(question("When does the ferry leave?"))
    with warm.connected() as connection:
        connection.sendall(request[:-1])
        _until(lambda: len(warm.protocols()) > 0)
    _until(lambda: not warm.protocols() and not warm.services.metrics.in_flight.now)


def test_a_second_request_waits_for_the_answer_to_the_first(warm: Gateway) -> None:
    """One that comes while another is answered goes the whole way, in its turn."""
    body, taken = question("When does the ferry leave?", stream=True), warm.lane.taken
    with warm.connected() as connection:
        connection.sendall(warm.request(body))
        connection.sendall(warm.request(body))
        data = b""
        while data.count(b"0\r\n\r\n") < 2:
            data += connection.recv(65536)
    assert data.count(b"HTTP/1.1 200 OK") == 2
    assert data.count(b"[DONE]") == 2
    assert warm.lane.taken - taken in (0, 1)  # both may have come in one read


def test_requests_that_are_written_at_once_are_all_answered_in_order(warm: Gateway) -> None:
    """On a fresh connection, and behind one that is answered on the lane."""
    texts = [f"When does ferry {number} leave?" for number in range(5)]
    for has_first in (False, True):
        with warm.connected() as connection:
            if has_first:
                warm.ask_on(connection, question("When does the ferry leave?"))
            connection.sendall(b"".join(warm.request(question(text)) for text in texts))
            bodies = _bodies(connection, len(texts))
        assert [json.loads(body)["choices"][0]["message"] for body in bodies] == [
            json.loads(warm.ask(question(text)).body)["choices"][0]["message"] for text in texts
        ]


def _bodies(connection: socket.socket, count: int) -> list[bytes]:
    """Of whole answers, each of which says how long it is."""
    data, bodies = b"", list[bytes]()
    while len(bodies) < count:
        head, found, rest = data.partition(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].split()[0]) if found else 0
        if not found or len(rest) < length:
            part = connection.recv(65536)
            assert part, "the connection was closed"
            data += part
            continue
        assert b" 200 OK" in head
        bodies.append(rest[:length])
        data = rest[length:]
    return bodies


def test_a_client_that_leaves_ends_its_request(warm: Gateway, engine: SimulatorThread) -> None:
    fault = {"kind": "hang", "path": "/v1/chat/completions"}
    httpx.post(f"{engine.url}/simulator/faults", json=fault).raise_for_status()
    taken = warm.lane.taken
    with warm.connected() as connection:
        connection.sendall(warm.request(question("When does the ferry leave?")))
        _until(lambda: warm.lane.taken == taken + 1)
        assert warm.services.metrics.in_flight.now == 1
    _until(lambda: warm.services.metrics.in_flight.now == 0)
    _until(lambda: b'"code":499' in warm.log.read_bytes())
    httpx.delete(f"{engine.url}/simulator/faults").raise_for_status()


def test_a_key_that_was_revoked_opens_nothing(engine: SimulatorThread, tmp_path: Path) -> None:
    with running(gateway_settings(tmp_path / "data", engine.url), tmp_path / "log") as gateway:
        body = question("When does the ferry leave?")
        assert [gateway.ask(body).straight for _ in range(4)][-1]
        gateway.made_key("operators", Role.ADMIN)  # from now on each request needs a key
        assert gateway.ask(body).status == 401
        gateway.key, key_id = gateway.made_key("tenant")
        store, keys = gateway.services.keys.store, gateway.services.keys
        store.set_limits("tenant", TenantLimits(requests_per_min=1000), by=OPERATOR)
        keys.refresh()
        ways = [gateway.ask(body) for _ in range(5)]
        whole = gateway.ask(body, whole_way=True)
        assert ways[-1].straight
        assert ways[-1].names() == whole.names()
        assert "x-ratelimit-remaining-requests" in whole.names()
        assert gateway.row(ways[-1].request_id)["tenant"] == "tenant"
        store.set_limits("tenant", TenantLimits(requests_per_min=1), by=OPERATOR)
        keys.refresh()
        assert {gateway.ask(body).status for _ in range(3)} <= {200, 429}
        store.revoke(key_id, by=OPERATOR)
        keys.refresh()
        refused = gateway.ask(body)
        assert (refused.status, refused.straight) == (401, False)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
