"""One's own traffic as a workload: unreadable, but with the lengths and prefixes that it had."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import WorkloadError
from bench.workloads import english_words
from bench.workloads.disguise import Disguise
from bench.workloads.file import WorkloadRequest
from bench.workloads.ledger import SeenRequest, ledger_requests, read_ledger
from bench.workloads.request_log import log_requests
from cache.tables import ledger, metadata

WORDS = english_words()
SECRETS = ("Alice", "salary", "4711")


def body(request: WorkloadRequest) -> dict[str, Any]:
    held: dict[str, Any] = orjson.loads(bytes(request.body))
    return held


def shared(one: list[str], other: list[str]) -> int:
    same = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(same, min(len(one), len(other)))


@given(
    st.lists(st.sampled_from(["red", "green", "blue"]), max_size=30),
    st.lists(st.sampled_from(["red", "green", "blue"]), max_size=30),
)
def test_a_disguise_keeps_lengths_and_shared_prefixes(one: list[str], other: list[str]) -> None:
    made = []
    disguise = Disguise(WORDS, 1)
    for words in (one, other):
        disguise.begin()
        made.append(disguise.text(" ".join(words)).split())
    assert [len(words) for words in made] == [len(one), len(other)]
    assert shared(*made) >= shared(one, other)
    # Words that part once may be equal again by chance, but never for long.
    assert shared(*made) <= shared(one, other) + 8


def logged(*contents: str, **fields: Any) -> bytes:
    roles = ("system", "user", "assistant")
    messages = [
        {"role": "system" if not at else roles[1 + (at - 1) % 2], "content": content}
        for at, content in enumerate(contents)
    ]
    return orjson.dumps({"request": {"messages": messages}, **fields})


RULES = "You know all about Alice and her salary of 4711."
LOG = [
    logged(RULES, "Who is Alice?", timestamp="2026-11-30T10:00:00+00:00"),
    b"garbage\n",
    logged(RULES, "What is her salary?", timestamp="2026-11-30T10:00:01+00:00"),
    logged(RULES, "Who is Alice?", "Somebody.", "Go on!", timestamp="2026-11-30T10:00:03.5+00:00",
           response={"usage": {"completion_tokens": 17}}),
]  # fmt: skip


def test_a_log_becomes_unreadable_sessions_at_its_own_times() -> None:
    made = list(log_requests(LOG, WORDS, 7, default_output=9))
    assert [(r.session, r.turn) for r in made] == [("log-0", 0), ("log-1", 0), ("log-0", 1)]
    assert [r.at_s for r in made] == [0.0, 1.0, 3.5]
    assert [r.max_tokens for r in made] == [9, 9, 17]
    assert not any(secret in bytes(r.body).decode() for r in made for secret in SECRETS)


def test_a_log_keeps_what_prompts_shared() -> None:
    first, second, third = (
        body(r)["messages"] for r in log_requests(LOG, WORDS, 7, default_output=9)
    )
    assert first[0] == second[0] == third[0]
    assert first[1] == third[1]
    assert first[1] != second[1]
    assert len(first[0]["content"].split()) == len(
        ["You", "know", "all", "about", "Alice", "and", "her", "salary", "of", "4711", "."]
    )


def test_tools_and_calls_of_a_log_stay_apart_and_unreadable() -> None:
    call = {
        "id": "call_Alice",
        "type": "function",
        "function": {"name": "pay_Alice", "arguments": '{"salary":4711}'},
    }
    messages = [
        {"role": "user", "content": "pay"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_Alice", "content": "4711"},
    ]
    tool = {"type": "function", "function": {"name": "pay_Alice", "parameters": {"type": "object"}}}
    line = orjson.dumps({"messages": messages, "tools": [tool]})
    (made,) = log_requests([line], WORDS, 7, default_output=9)
    assert not any(secret in bytes(made.body).decode() for secret in SECRETS)
    assert [m["role"] for m in body(made)["messages"]] == ["user", "assistant", "tool"]
    assert len(body(made)["tools"]) == 1


def test_a_log_without_a_request_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no line"):
        list(log_requests([b"garbage"], WORDS, 7, default_output=9))


NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def seen(second: float, prompt: int, ideal: int | None, *, tenant: str = "a") -> SeenRequest:
    return SeenRequest(
        at=NOON + timedelta(seconds=second),
        e2e_s=0.5,
        group=(tenant, "chat@1", None),
        prompt_tokens=prompt,
        ideal_tokens=ideal,
        output_tokens=5,
    )


def prompt_words(request: WorkloadRequest) -> list[str]:
    content: str = body(request)["messages"][0]["content"]
    return content.split()


def test_a_ledgers_requests_share_what_their_ideals_say() -> None:
    rows = [seen(1, 100, 0), seen(2, 120, 60), seen(4, 90, None), seen(5, 90, 60, tenant="b")]
    made = list(ledger_requests(rows, WORDS, 1, default_output=9))
    first, second, unknown, elsewhere = map(prompt_words, made)
    assert [len(w) for w in (first, second, unknown, elsewhere)] == [100, 120, 90, 90]
    assert 60 <= shared(first, second) <= 62
    assert shared(first, unknown) <= 2
    assert shared(first, elsewhere) <= 2
    assert [r.at_s for r in made] == [0.0, 1.0, 3.0, 4.0]
    assert [r.labels["group"] for r in made] == ["0", "0", "0", "1"]


def test_an_ideal_that_reaches_into_the_answer_is_kept() -> None:
    made = list(ledger_requests([seen(1, 50, 0), seen(2, 80, 54)], WORDS, 1, default_output=9))
    first, second = map(prompt_words, made)
    assert shared(first, second) == 50
    assert len(second) == 80


def test_the_ledger_is_read_by_when_requests_came(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'foreword.db'}"
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    common = {"tenant": "a", "template": "chat@1", "status": "ok"}
    rows = [
        {
            "request_id": "long",
            "at": NOON + timedelta(seconds=9),
            "e2e_s": 9.0,
            "prompt_tokens": 10,
        },
        {
            "request_id": "short",
            "at": NOON + timedelta(seconds=3),
            "e2e_s": 1.0,
            "prompt_tokens": 20,
        },
        {"request_id": "unknown", "at": NOON, "e2e_s": 1.0, "prompt_tokens": None},
    ]
    with engine.begin() as connection:
        connection.execute(ledger.insert(), [common | row for row in rows])
    engine.dispose()
    assert [each.prompt_tokens for each in read_ledger(url, last=10)] == [10, 20]
    assert [each.prompt_tokens for each in read_ledger(url, last=1)] == [10]


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="the ledger: can't be read"):
        read_ledger(f"sqlite:///file:{tmp_path / 'nothing.db'}?mode=ro&uri=true", last=1)
