"""A response that is made in the background, and whose turn it is. Pure."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

JSONObject = dict[str, Any]


class RunStatus(StrEnum):
    """OpenAI's."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"


UNDER_WAY = (RunStatus.QUEUED, RunStatus.IN_PROGRESS)
# The events that a stream ends with. A cancelled response has none: OpenAI's API knows no such one.
LAST_EVENTS = frozenset({"response.completed", "response.failed", "response.incomplete"})
# How often a gateway may die over one response until nobody touches it any more.
MOST_LOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One that is to be begun, not before a time; `conversation_id` is what it is a turn of."""

    id: str
    tenant: str
    conversation_id: str | None
    attempt: int
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One that this gateway makes now.

    Attributes:
        body: what the client sent, JSON.
        attempt: how often it was begun, with this time: only the last one may say how it ends.
        lost: how often a gateway died over it.
        next_event: the number of its next event.
        streams: whether its events are kept.
    """

    id: str
    tenant: str
    created_at: float
    body: bytes
    attempt: int
    lost: int
    next_event: int
    streams: bool
    conversation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What there is of a response that is followed; `ended_at` is None until it has ended."""

    events: Sequence[JSONObject]
    response: JSONObject
    next_event: int
    ended_at: float | None


def chosen(
    waiting: Iterable[Waiting],
    running: Collection[tuple[str, str | None]],
    *,
    now: float,
    room: int,
    per_tenant: int,
) -> list[Waiting]:
    """Whose turn it is, the oldest first: tenants take turns, and turns of a conversation do too.

    Args:
        waiting: all that are to be begun, the oldest first.
        running: tenant and conversation of those that are made here.
        room: how many may be begun.
        per_tenant: most of one tenant that are made at a time.
    """
    counts = Counter(tenant for tenant, _ in running)
    busy = {conversation for _, conversation in running if conversation}
    lines: dict[str, list[Waiting]] = {}
    for each in waiting:
        if each.conversation_id is not None:
            if each.conversation_id in busy:
                continue
            busy.add(each.conversation_id)
        if each.not_before > now:
            continue
        lines.setdefault(each.tenant, []).append(each)
    taken: list[Waiting] = []
    while lines and len(taken) < room:
        tenant = min(lines, key=lambda name: counts[name])
        if counts[tenant] >= per_tenant:
            break
        taken.append(lines[tenant].pop(0))
        counts[tenant] += 1
        if not lines[tenant]:
            del lines[tenant]
    return taken


def due_at(waiting: Iterable[Waiting], now: float) -> float:
    """When the next one may be begun that may not be yet; infinite where there is none such."""
    return min((each.not_before for each in waiting if each.not_before > now), default=math.inf)


def numbered(
    events: Iterable[JSONObject], first: int, *, without: Collection[str] = ()
) -> list[JSONObject]:
    """The events with numbers from `first` on; those of some types are left out."""
    kept = [event for event in events if event["type"] not in without]
    return [event | {"sequence_number": first + place} for place, event in enumerate(kept)]


def begun_events(response: JSONObject) -> list[JSONObject]:
    """What a stream begins with when a response has been queued."""
    kinds = ("response.created", "response.queued")
    return numbered(({"type": kind, "response": response} for kind in kinds), 0)


def last_event(response: JSONObject, number: int) -> JSONObject | None:
    """The end of a stream whose own was lost; None where there is none."""
    kind = f"response.{response['status']}"
    if kind not in LAST_EVENTS:
        return None
    return {"type": kind, "sequence_number": number, "response": response}


def failed_response(response: JSONObject, code: str, message: str) -> JSONObject:
    """The response as it ends that nothing can be made of."""
    error = {"code": code, "message": message}
    return response | {"status": RunStatus.FAILED.value, "error": error}


def failure_code(status: int) -> str:
    """OpenAI's code for a response that an error of this HTTP status ended."""
    match status:
        case 429:
            return "rate_limit_exceeded"
        case _ if 400 <= status < 500:
            return "invalid_prompt"
        case _:
            return "server_error"
