"""A batch, its requests and what came of them, as they are kept. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

import orjson

from app.batches.lines import LineProblem

WINDOW = "24h"
WINDOW_S = 24 * 3600


class BatchStatus(StrEnum):
    """OpenAI's. `finalizing` is not among them: files are written in the moment that ends it."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


UNDER_WAY = (BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS, BatchStatus.CANCELLING)
_TIMES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
_WHY = {
    BatchStatus.EXPIRED: (
        "batch_expired",
        "the batch's completion window ended before this request was answered; send it again",
    ),
    BatchStatus.CANCELLED: (
        "batch_cancelled",
        "the batch was cancelled before this request was answered",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as it stands. `times` are seconds since 1970, by status."""

    id: str
    tenant: str
    endpoint: str
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    status: BatchStatus
    problems: Sequence[Mapping[str, Any]]
    metadata: Mapping[str, str] | None
    created_at: int
    expires_at: int
    times: Mapping[str, int]
    total: int
    completed: int
    failed: int

    def json(self) -> dict[str, Any]:
        """OpenAI's batch object."""
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": list(self.problems)} if self.problems else None,
            "input_file_id": self.input_file_id,
            "completion_window": WINDOW,
            "status": self.status.value,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            **{f"{name}_at": self.times.get(name) for name in _TIMES},
            "expires_at": self.expires_at,
            "request_counts": {
                "total": self.total,
                "completed": self.completed,
                "failed": self.failed,
            },
            "metadata": None if self.metadata is None else dict(self.metadata),
        }


@dataclass(slots=True, kw_only=True)
class WaitingLine:
    """A request that is still to be answered; `attempts` counts since the gateway started.

    `conversation` is the stored one that it is a turn of.
    """

    number: int
    place: int
    leads: bool
    custom_id: str
    body: bytes
    attempts: int = 0
    conversation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAnswer:
    """What a request was answered with; `body` is JSON."""

    status: int
    request_id: str | None
    body: bytes
    retry_after_s: float | None = None

    @property
    def succeeded(self) -> bool:
        """Whether it goes to the output file, not to that of errors."""
        return self.status == 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLine:
    """What came of a request: a line of the output file where it `succeeded`, else of errors'."""

    line: bytes
    succeeded: bool


def answered_line(batch_id: str, line: WaitingLine, answer: LineAnswer) -> bytes:
    """A request's line of output."""
    response = {
        "status_code": answer.status,
        "request_id": answer.request_id,
        "body": orjson.Fragment(answer.body),
    }
    return _line(batch_id, line.number, line.custom_id, response=response)


def unanswered_line(batch_id: str, number: int, custom_id: str, ended: BatchStatus) -> bytes:
    """The line of a request that wasn't sent, or not to its end."""
    code, message = _WHY[ended]
    return _line(batch_id, number, custom_id, error={"code": code, "message": message})


def problem_json(problem: LineProblem) -> dict[str, Any]:
    """OpenAI's batch error."""
    return {
        "code": problem.code,
        "line": problem.line,
        "message": problem.message,
        "param": problem.param,
    }


def _line(
    batch_id: str,
    number: int,
    custom_id: str,
    *,
    response: Mapping[str, object] | None = None,
    error: Mapping[str, str] | None = None,
) -> bytes:
    name = sha256(f"{batch_id}/{number}".encode()).hexdigest()[:24]
    told = {
        "id": f"batch_req_{name}",
        "custom_id": custom_id,
        "response": response,
        "error": error,
    }
    return orjson.dumps(told) + b"\n"
