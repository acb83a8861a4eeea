"""Whose turn it is among responses of the background, and how their events are numbered."""

import math
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.responses.background.records import (
    Waiting,
    begun_events,
    chosen,
    due_at,
    failure_code,
    last_event,
    numbered,
)

NOW = 1_000.0


def waiting(number: int, tenant: str, conversation: str | None = None, **more: Any) -> Waiting:
    return Waiting(
        id=f"resp_{number}", tenant=tenant, conversation_id=conversation, attempt=0, **more
    )


def ids(taken: list[Waiting]) -> list[str]:
    return [each.id for each in taken]


def test_a_tenant_with_many_doesnt_keep_others_waiting() -> None:
    queue = [*(waiting(n, "a") for n in range(50)), waiting(50, "b")]
    assert ids(chosen(queue, [], now=NOW, room=3, per_tenant=9)) == ["resp_0", "resp_50", "resp_1"]


def test_a_tenant_has_no_more_than_its_part() -> None:
    queue = [waiting(n, "a") for n in range(5)]
    taken = chosen(queue, [("a", None)], now=NOW, room=8, per_tenant=3)
    assert ids(taken) == ["resp_0", "resp_1"]


def test_turns_of_a_conversation_wait_for_each_other_and_keep_their_order() -> None:
    queue = [
        waiting(0, "a", "conv_1", not_before=NOW + 1),
        waiting(1, "a", "conv_1"),
        waiting(2, "a", "conv_2"),
        waiting(3, "a", "conv_2"),
        waiting(4, "a", "conv_3"),
    ]
    taken = chosen(queue, [("a", "conv_3")], now=NOW, room=8, per_tenant=8)
    assert ids(taken) == ["resp_2"]


tenants = st.sampled_from("abc")
conversations = st.none() | st.sampled_from(["conv_1", "conv_2"])


@given(
    st.lists(st.tuples(tenants, conversations, st.sampled_from([0.0, NOW + 1])), max_size=20),
    st.lists(st.tuples(tenants, conversations), max_size=6),
    st.integers(0, 8),
    st.integers(1, 4),
)
def test_no_bound_is_ever_passed(
    queued: list[tuple[str, str | None, float]],
    running: list[tuple[str, str | None]],
    room: int,
    per_tenant: int,
) -> None:
    queue = [waiting(n, t, c, not_before=at) for n, (t, c, at) in enumerate(queued)]
    taken = chosen(queue, running, now=NOW, room=room, per_tenant=per_tenant)
    assert len(taken) <= room
    assert all(each.not_before <= NOW for each in taken)
    busy = [c for _, c in running if c]
    ours = [each.conversation_id for each in taken if each.conversation_id]
    assert len(set(ours)) == len(ours)
    assert not set(ours) & set(busy)
    before = Counter(t for t, _ in running)
    for tenant, count in Counter(each.tenant for each in taken).items():
        assert before[tenant] + count <= per_tenant
        own = [each for each in queue if each.tenant == tenant]
        assert [e for e in own if e in taken] == [e for e in taken if e.tenant == tenant]


def test_numbers_go_on_and_what_was_told_is_left_out() -> None:
    events = [{"type": "response.created"}, {"type": "response.in_progress"}, {"type": "x"}]
    assert [e["sequence_number"] for e in numbered(events, 5)] == [5, 6, 7]
    later = numbered(events, 2, without=("response.created",))
    assert [(e["type"], e["sequence_number"]) for e in later] == [
        ("response.in_progress", 2),
        ("x", 3),
    ]
    assert [e["type"] for e in begun_events({})] == ["response.created", "response.queued"]


def test_every_end_but_a_cancellation_has_its_event() -> None:
    for status in ("completed", "failed", "incomplete"):
        event = last_event({"status": status}, 7)
        assert event is not None
        assert (event["type"], event["sequence_number"]) == (f"response.{status}", 7)
    assert last_event({"status": "cancelled"}, 7) is None
    assert [failure_code(status) for status in (429, 404, 502)] == [
        "rate_limit_exceeded",
        "invalid_prompt",
        "server_error",
    ]


@given(st.lists(st.floats(0, 2 * NOW)))
def test_the_next_one_is_due_when_the_earliest_may_be_begun(times: list[float]) -> None:
    queue = [waiting(n, "a", not_before=each) for n, each in enumerate(times)]
    due = due_at(queue, NOW)
    assert due > NOW, "what may be begun now waits for room, not for a time"
    assert due == min([each for each in times if each > NOW], default=math.inf)
