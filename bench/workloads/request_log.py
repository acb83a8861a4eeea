"""One's own traffic from a log of requests: the texts replaced, all else as it was. Pure.

What may be on a line is said in `cache.request_log.bodies`.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import orjson

from bench.errors import WorkloadError
from bench.workloads.disguise import Disguise
from bench.workloads.file import JSONObject, WorkloadRequest, asked
from bench.workloads.vocabulary import Vocabulary
from cache.request_log.bodies import LoggedRequest, LogLineError, parse_line
from prompts import Message, Tool

_TIMES = ("timestamp", "time", "ts", "created_at", "created", "at")
# Seconds since 1970 stay below for 3,000 years; milliseconds are above since 1973.
_MILLISECONDS_ABOVE = 1e11


def log_requests(
    lines: Iterable[bytes], vocabulary: Vocabulary, seed: int, *, default_output: int
) -> Iterator[WorkloadRequest]:
    """The requests in the log's order; those that go on from an earlier one are its session.

    Lines that hold no request are left out.

    Args:
        default_output: answer's length where the log doesn't tell it.

    Raises:
        WorkloadError: no line holds a request.
    """
    reading = _Reading(Disguise(vocabulary, seed), default_output)
    found = 0
    for line in lines:
        try:
            logged = parse_line(line)
        except LogLineError:
            continue
        yield reading.request(found, logged, _record(line))
        found += 1
    if not found:
        raise WorkloadError("the log", "no line of it holds a request")


class _Reading:
    """What is known of the requests so far."""

    def __init__(self, disguise: Disguise, default_output: int) -> None:
        self._disguise = disguise
        self._default_output = default_output
        self._began_s: float | None = None
        # Where each session's last prompt ended → its name and how many turns it has.
        self._ends: dict[bytes, tuple[str, int]] = {}

    def request(self, number: int, logged: LoggedRequest, record: JSONObject) -> WorkloadRequest:
        disguise = self._disguise
        disguise.begin()
        disguise.note(logged.salt)
        tools = [self._tool(tool) for tool in logged.tools]
        messages: list[JSONObject] = []
        session, turn = f"log-{number}", 0
        for message in logged.messages:
            messages.append(self._message(message))
            known = self._ends.pop(disguise.mark, None)
            if known is not None:
                session, turn = known[0], known[1] + 1
        self._ends[disguise.mark] = (session, turn)
        body: JSONObject = {"messages": messages} | ({"tools": tools} if tools else {})
        return asked(
            body,
            id=f"log-{number}",
            at_s=self._at_s(record),
            session=session,
            turn=turn,
            max_tokens=self._output(logged, record),
        )

    def _message(self, message: Message) -> JSONObject:
        self._disguise.note(f"\0{message.role}")
        made: JSONObject = {
            "role": message.role,
            "content": self._disguise.text(message.content),
        }
        if message.tool_calls:
            made["tool_calls"] = [
                {
                    "id": self._name(call.id),
                    "type": "function",
                    "function": {
                        "name": self._name(call.name),
                        "arguments": orjson.dumps(
                            {"of": self._disguise.text(call.arguments)}
                        ).decode(),
                    },
                }
                for call in message.tool_calls
            ]
        if message.tool_call_id:
            made["tool_call_id"] = self._name(message.tool_call_id)
        return made

    def _tool(self, tool: Tool) -> JSONObject:
        name = self._name(tool.name)
        about = {"name": name, "description": self._disguise.text(tool.json)}
        return {"type": "function", "function": about}

    def _name(self, name: str) -> str:
        self._disguise.note(name)
        return f"n{self._disguise.mark.hex()[:12]}"

    def _output(self, logged: LoggedRequest, record: JSONObject) -> int:
        told = _completion_tokens(record)
        if told is not None:
            return max(1, told)
        if logged.output is not None:
            return max(1, len(self._disguise.text(logged.output.content).split()))
        return self._default_output

    def _at_s(self, record: JSONObject) -> float | None:
        moment = next((m for key in _TIMES if (m := _seconds(record.get(key))) is not None), None)
        if moment is None:
            return None
        if self._began_s is None:
            self._began_s = moment
        return round(max(0.0, moment - self._began_s), 6)


def _record(line: bytes) -> JSONObject:
    record = orjson.loads(line)
    return record if isinstance(record, dict) else {}


def _completion_tokens(record: JSONObject) -> int | None:
    for holder in (record, record.get("response"), record.get("response_body")):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            told = usage.get("completion_tokens", usage.get("output_tokens"))
            return told if type(told) is int else None
    return None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value / 1000 if value > _MILLISECONDS_ABOVE else float(value)
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            return None
    return None
