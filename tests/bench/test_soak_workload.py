"""What a soak asks, orders and notes."""

from collections import Counter
from types import SimpleNamespace

import orjson
import pytest

from bench.engine_sim import SimulatorThread
from bench.soak.fault_plan import EVENT_BUFFER_STEPS, breaks_answers, orders_at
from bench.soak.http import HttpClient, Reply
from bench.soak.latency import percentile
from bench.soak.ledger_checks import balanced
from bench.soak.samples import append_sample, metric, read_samples
from bench.soak.traffic import answer_text, outcome
from bench.soak.workload import Ask, Kind, Workload, collection_files
from tests.bench.test_soak_judge import SAMPLE

STREAMED = Ask(kind=Kind.CHAT, body={"stream": True})
WHOLE = Ask(kind=Kind.CHAT, body={"stream": False})


def reply(status: int = 200, body: bytes = b"", *, complete: bool = True) -> Reply:
    return Reply(status=status, body=body, first_s=0.1, total_s=0.2, complete=complete)


def asks(workload: Workload, count: int) -> list[Ask]:
    made = []
    for _ in range(count):
        made.append(workload.next())
        workload.answered(made[-1], "Noon.")
    return made


def test_the_same_seed_asks_the_same() -> None:
    one, other = (asks(Workload(1, collections=["a", "b"]), 200) for _ in range(2))
    assert [ask.body for ask in one] == [ask.body for ask in other]


def test_every_kind_comes_and_some_clients_go_away() -> None:
    made = asks(Workload(1, collections=["a", "b"]), 2_000)
    assert set(Counter(ask.kind for ask in made)) == set(Kind)
    leaving = [ask for ask in made if ask.give_up_after is not None]
    assert 30 < len(leaving) < 120
    assert all(ask.body["stream"] and ask.body["max_tokens"] >= 60 for ask in leaving)


def test_a_conversation_goes_on_with_the_answer_it_got() -> None:
    workload = Workload(1, collections=["a"])
    longest = max(asks(workload, 3_000), key=lambda ask: len(ask.body["messages"]))
    roles = [message["role"] for message in longest.body["messages"]]
    assert roles[0] == "system"
    assert roles[1:] == ["user", "assistant"] * (len(roles) // 2 - 1) + ["user"]


def test_a_conversation_without_an_answer_begins_anew() -> None:
    workload = Workload(1, collections=["a"])
    ask = next(ask for ask in iter(workload.next, None) if ask.kind is Kind.CHAT)
    workload.answered(ask, None)
    assert all(not chat.messages for chat in workload._idle)


def test_a_collection_always_has_the_same_small_documents() -> None:
    assert collection_files(1, "a") == collection_files(1, "a")
    assert collection_files(1, "a") != collection_files(1, "b")
    assert sum(map(len, collection_files(1, "a").values())) < 8_000


def test_events_are_lost_both_for_a_while_and_for_good() -> None:
    lost = [o["times"] for n in range(1, 10_000) for o in orders_at(n) if "times" in o]
    assert min(lost) < EVENT_BUFFER_STEPS < max(lost)


def test_few_requests_are_broken_on_purpose() -> None:
    broken = sum(breaks_answers(o) for n in range(1, 10_001) for o in orders_at(n))
    assert 40 < broken < 200


@pytest.mark.parametrize(
    ("ask", "seen", "word"),
    [
        (WHOLE, reply(), "200"),
        (WHOLE, reply(404), "404"),
        (WHOLE, reply(0, complete=False), "lost"),
        (STREAMED, reply(complete=False), "lost"),
        (STREAMED, reply(body=b'data: {"error":{"code":"x"}}\n\n'), "broken"),
        (
            Ask(kind=Kind.CHAT, body={"stream": True}, give_up_after=1),
            reply(complete=False),
            "given up",
        ),
    ],
)
def test_what_became_of_a_request(ask: Ask, seen: Reply, word: str) -> None:
    assert outcome(ask, seen) == word


def test_an_answer_is_read_from_either_form() -> None:
    whole = orjson.dumps({"choices": [{"message": {"content": "At noon."}}]})
    parts = [{"choices": [{"delta": {"content": text}}]} for text in ("At ", "noon.")]
    streamed = b"".join(b"data: " + orjson.dumps(part) + b"\n\n" for part in parts)
    assert answer_text(WHOLE, reply(body=whole)) == "At noon."
    assert answer_text(STREAMED, reply(body=streamed + b"data: [DONE]\n\n")) == "At noon."
    assert answer_text(WHOLE, reply(502)) is None


def test_percentiles_are_values_that_came() -> None:
    assert percentile([], 0.5) is None
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(100)], 0.99) == 98.0


def test_a_metric_is_summed_over_its_labels() -> None:
    text = '# HELP a b\nfore_x{t="1"} 2\nfore_x{t="2"} 3\nfore_xy 9\nfore_z 4\n'
    assert metric(text, "fore_x") == 5
    assert metric(text, "fore_z") == 4
    assert metric(text, "absent") == 0


def test_samples_come_back_and_a_cut_off_line_is_left_out(tmp_path) -> None:
    file = tmp_path / "samples.jsonl"
    assert read_samples(file) == []
    append_sample(file, SAMPLE)
    append_sample(file, SAMPLE)
    file.write_bytes(file.read_bytes()[:-20])
    assert read_samples(file) == [SAMPLE]


@pytest.mark.parametrize(("new", "good"), [(4, True), (5, False), (None, True)])
def test_a_row_whose_tokens_are_known_must_add_up(new: int | None, good: bool) -> None:
    row = SimpleNamespace(prompt_tokens=20, cached_tokens=10, new_tokens=new, lost={"changed": 6})
    assert balanced(row) is good


@pytest.mark.anyio
async def test_the_client_keeps_connections_and_can_go_away(simulator: SimulatorThread) -> None:
    host, _, port = simulator.url.removeprefix("http://").partition(":")
    client = HttpClient(host, int(port))
    body = {"model": "sim", "messages": [{"role": "user", "content": "When?"}], "max_tokens": 40}
    streamed = orjson.dumps(body | {"stream": True, "stream_options": {"include_usage": True}})
    whole = await client.send("POST", "/v1/chat/completions", orjson.dumps(body))
    again = await client.send("POST", "/v1/chat/completions", streamed)
    left = await client.send("POST", "/v1/chat/completions", streamed, give_up_after=1)
    client.close()
    assert whole.status == again.status == 200
    assert answer_text(WHOLE, whole) == answer_text(STREAMED, again)
    assert again.body.endswith(b"data: [DONE]\n\n")
    assert not left.complete
    assert left.status == 200
