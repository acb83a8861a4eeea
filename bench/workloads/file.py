"""The workload file: JSON lines, a header first, then the requests in the order of sending.

The header's `sha256` is that of the request lines as they stand in the file, line ends included:
two runs sent the same if it is the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import orjson

from bench.errors import WorkloadError

JSONObject = dict[str, Any]

_T = TypeVar("_T")

_ANSWER_OF = "answer_of"
_MARK = b'"answer_of":'


class WorkloadHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What the list is, and how it was made."""

    kind: Literal["foreword.workload"] = "foreword.workload"
    version: Literal[1] = 1
    name: str
    seed: int | None
    parameters: Mapping[str, Any]
    requests: int
    sha256: str


class WorkloadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        at_s: when it comes, from the first one on; None: the load says when.
        session: turns of one session are sent one after the other, each after its answer.
        body: OpenAI's chat fields without `model` and `stream`.
    """

    id: str
    at_s: float | None = None
    session: str | None = None
    turn: int = 0
    body: msgspec.Raw
    max_tokens: int
    labels: Mapping[str, str] = {}

    @property
    def needs_answers(self) -> bool:
        """Whether an earlier answer is to be filled into its body."""
        return _MARK in bytes(self.body)


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A whole list."""

    header: WorkloadHeader
    requests: Sequence[WorkloadRequest]


def answer_of(request_id: str) -> JSONObject:
    """An assistant's message whose text is the real answer to an earlier request."""
    return {"role": "assistant", "content": {_ANSWER_OF: request_id}}


def asked(body: JSONObject, **fields: Any) -> WorkloadRequest:
    """A request with this body."""
    raw = msgspec.Raw(orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
    return WorkloadRequest(body=raw, **fields)


def fill_answers(body: JSONObject, answers: Mapping[str, str]) -> JSONObject:
    """The body with real answers in the places of the marks; without one it is empty."""
    return body | {"messages": [_filled(message, answers) for message in body["messages"]]}


def _filled(message: JSONObject, answers: Mapping[str, str]) -> JSONObject:
    content = message.get("content")
    if isinstance(content, dict) and _ANSWER_OF in content:
        return message | {"content": answers.get(content[_ANSWER_OF], "")}
    return message


def make_workload(
    name: str,
    requests: Iterable[WorkloadRequest],
    *,
    seed: int | None,
    parameters: Mapping[str, Any],
) -> Workload:
    """A list with its header.

    Raises:
        WorkloadError: it would be empty, two requests have one id, or a session's turns are not
            in order.
    """
    held = tuple(requests)
    _check(name, held)
    header = WorkloadHeader(
        name=name,
        seed=seed,
        parameters=parameters,
        requests=len(held),
        sha256=_digest(map(_line, held)),
    )
    return Workload(header=header, requests=held)


def write_workload(path: Path, workload: Workload) -> None:
    """Write the file.

    Raises:
        WorkloadError: it can't be written.
    """
    try:
        with path.open("wb") as file:
            file.write(_line(workload.header))
            file.writelines(map(_line, workload.requests))
    except OSError as error:
        raise WorkloadError(str(path), f"can't be written: {error.strerror}") from error


def read_workload(path: Path) -> Workload:
    """Read the file, and check that it is whole.

    Raises:
        WorkloadError: it can't be read, isn't a workload, or its lines are not those of its header.
    """
    try:
        with path.open("rb") as file:
            header = _decode(WorkloadHeader, next(file, b""), f"{path}, line 1")
            lines = file.readlines()
    except OSError as error:
        raise WorkloadError(str(path), f"can't be read: {error.strerror}") from error
    if _digest(lines) != header.sha256:
        raise WorkloadError(str(path), "its requests are not those that its header names")
    requests = tuple(_requests(path, lines))
    _check(str(path), requests)
    return Workload(header=header, requests=requests)


def _requests(path: Path, lines: Sequence[bytes]) -> Iterator[WorkloadRequest]:
    for number, line in enumerate(lines, 2):
        yield _decode(WorkloadRequest, line, f"{path}, line {number}")


def _decode(kind: type[_T], line: bytes, where: str) -> _T:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise WorkloadError(where, f"isn't what this version reads: {error}") from error


def _check(what: str, requests: Sequence[WorkloadRequest]) -> None:
    if not requests:
        raise WorkloadError(what, "there is no request in it")
    seen: set[str] = set()
    last_turns: dict[str, int] = {}
    for request in requests:
        if request.id in seen:
            raise WorkloadError(what, f"two requests are called {request.id}")
        seen.add(request.id)
        if request.session is not None:
            if request.turn <= last_turns.get(request.session, -1):
                raise WorkloadError(what, f"the turns of session {request.session} aren't in order")
            last_turns[request.session] = request.turn


def _line(part: WorkloadHeader | WorkloadRequest) -> bytes:
    return msgspec.json.encode(part, order="sorted") + b"\n"


def _digest(lines: Iterable[bytes]) -> str:
    digest = sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()
