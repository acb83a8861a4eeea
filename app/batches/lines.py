"""The requests of a batch's file: one JSON object a line, as OpenAI defines it. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO

import orjson

from app.batches.sharing import conversation_of, sharing_key
from app.errors import InvalidRequestError
from app.json_guard import loads
from app.settings import WireSettings

# Nobody reads more of them.
MAX_PROBLEMS = 100
_FIELDS = ("custom_id", "method", "url", "body")
_MAX_ID = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One request.

    Attributes:
        number: its place among the file's requests, from 0.
        body: as JSON.
        key: texts that begin alike are prompts that begin alike. Turns of one conversation have
            one: they stay in the file's order.
    """

    number: int
    custom_id: str
    body: bytes
    key: bytes
    conversation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineProblem:
    """What is wrong with a file; `line` counts from 1, None is the whole file."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class _LineError(Exception):
    def __init__(self, message: str, *, code: str = "invalid_line", param: str | None = None):
        super().__init__(message)
        self.code = code
        self.param = param


def read_lines(
    data: bytes, endpoint: str, *, max_lines: int, limits: WireSettings
) -> tuple[list[BatchLine], list[LineProblem]]:
    """The requests of a file, and what is wrong with it; with a problem nothing of it may run."""
    lines: list[BatchLine] = []
    problems: list[LineProblem] = []
    seen: dict[str, int] = {}
    keys: dict[str, bytes] = {}
    for place, raw in _texts(data):
        if len(lines) >= max_lines:
            message = f"the file has more than {max_lines:,} requests; send several batches"
            problems.append(LineProblem(code="too_many_lines", message=message, line=place))
            break
        try:
            line = _line(raw, endpoint, len(lines), limits)
            first = seen.setdefault(line.custom_id, place)
            if first != place:
                raise _LineError(
                    f"the custom_id {line.custom_id[:100]!r} is that of line {first}, too; give "
                    "each line its own",
                    code="duplicate_custom_id",
                    param="custom_id",
                )
        except _LineError as error:
            problem = LineProblem(
                code=error.code, message=str(error), line=place, param=error.param
            )
            problems.append(problem)
            if len(problems) >= MAX_PROBLEMS:
                break
        else:
            if line.conversation is not None:
                line = replace(line, key=keys.setdefault(line.conversation, line.key))
            lines.append(line)
    if not lines and not problems:
        message = "the file has no requests; write one JSON object a line"
        problems.append(LineProblem(code="empty_file", message=message))
    return lines, problems


def _texts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line that isn't blank, with its number from 1."""
    for place, raw in enumerate(BytesIO(data), start=1):
        text = raw.strip()
        if text:
            yield place, text


def _line(raw: bytes, endpoint: str, number: int, limits: WireSettings) -> BatchLine:
    """Raises _LineError: it is no request."""
    if len(raw) > limits.json_bytes:
        raise _LineError(f"the line is larger than {limits.json_bytes:,} bytes; send less")
    try:
        given = loads(raw, limits)
    except InvalidRequestError as error:
        problem = str(error).replace("the body", "the line", 1)
        raise _LineError(problem, code="invalid_json_line") from error
    if not isinstance(given, dict):
        raise _LineError("the line is no JSON object", code="invalid_json_line")
    for name in given:
        if name not in _FIELDS:
            raise _LineError(f"{str(name)[:100]}: there is no such field here", param=str(name))
    custom_id, body = _custom_id(given), given.get("body")
    if given.get("method") != "POST":
        raise _LineError("method: must be POST", code="invalid_method", param="method")
    if given.get("url") != endpoint:
        problem = f"url: must be the batch's endpoint, {endpoint}"
        raise _LineError(problem, code="mismatched_url", param="url")
    if not isinstance(body, dict):
        raise _LineError("body: must be a JSON object", param="body")
    _check_body(body)
    return BatchLine(
        number=number,
        custom_id=custom_id,
        body=orjson.dumps(body),
        key=sharing_key(endpoint, body),
        conversation=conversation_of(endpoint, body),
    )


def _custom_id(given: dict[object, object]) -> str:
    """Raises _LineError: there is none that can be told by."""
    custom_id = given.get("custom_id")
    match custom_id:
        case None:
            problem = "is missing; give each line one of its own, its answer is found by it"
        case "":
            problem = "is empty; give each line one of its own, its answer is found by it"
        case str() if len(custom_id) > _MAX_ID:
            problem = f"has {len(custom_id):,} characters; it may have {_MAX_ID}"
        case str() if "\0" in custom_id:
            problem = "has a NUL character, which can't be stored; leave it out"
        case str():
            return custom_id
        case _:
            problem = f"must be a text of 1 to {_MAX_ID} characters"
    raise _LineError(f"custom_id: {problem}", param="custom_id")


def _check_body(body: dict[str, object]) -> None:
    """Raises _LineError: it asks for what no batch can give; all else is said of its request."""
    if not isinstance(body.get("model"), str):
        raise _LineError("body.model: must name a model", param="body.model")
    for name in ("stream", "background"):
        if body.get(name):
            problem = f"body.{name}: a batch's answers come in a file; leave it out"
            raise _LineError(problem, param=f"body.{name}")
