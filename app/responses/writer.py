"""Writes a response from the parts of a chat completion: its events, and the object they lead to.

A whole answer is written as a stream of one part, so that both say the same.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from app.responses.objects import (
    NO_LOGPROBS,
    Frame,
    JSONObject,
    Search,
    call_item,
    citation,
    message_item,
    reasoning_item,
    search_item,
    text_part,
    usage_object,
)

Events = Iterator[JSONObject]


class ResponseWriter:
    """One response. Call `begin`, then `part` for each part, then `end` or `failed`.

    Each gives the events to send, numbered from 0; `response` is the object as it stands.
    """

    def __init__(self, frame: Frame, search: Search | None) -> None:
        self._frame = frame
        self._search = search
        self._output: list[JSONObject] = []
        self._number = 0
        self._open: str | None = None  # kind of the item that is being written, the last one
        self._text: list[str] = []  # of the item that is being written
        self._call: dict[str, str] = {}
        self._call_index: int | None = None
        self._finish: str | None = None
        self._usage: Mapping[str, Any] = {}
        self._block: JSONObject = {}
        self.response = frame.response("in_progress", self._output)

    def begin(self) -> Events:
        """The response exists; what was searched for has been found."""
        yield self._event("response.created", response=self._snapshot())
        yield self._event("response.in_progress", response=self._snapshot())
        if self._search is not None:
            yield from self._searched(self._search)

    def part(self, part: JSONObject) -> Events:
        """More of the answer, in the shape of chat completions' chunks."""
        self._usage = part.get("usage") or self._usage
        self._block = part.get("foreword") or self._block
        for choice in part.get("choices") or ():
            if choice.get("index", 0) == 0:
                yield from self._delta(choice.get("delta") or {})
                self._finish = choice.get("finish_reason") or self._finish

    def end(self, now: int) -> Events:
        """The answer is complete, or as long as it may be; `now` in seconds since the epoch."""
        is_cut = self._finish in ("length", "content_filter", "abort")
        status = "incomplete" if is_cut else "completed"
        if not any(item["type"] in ("message", "function_call") for item in self._output):
            yield from self._begin("message")
        yield from self._close(status)
        self._finished(status)
        if is_cut:
            # OpenAI's types know no other reasons.
            reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
            self.response["incomplete_details"] = {"reason": reasons.get(self._finish or "")}
        else:
            self.response["completed_at"] = now
        yield self._event(f"response.{status}", response=self._snapshot())

    def failed(self, message: str, code: str) -> Events:
        """The answer broke off."""
        self._keep("incomplete")
        self._finished("failed")
        limited = code == "engine_overloaded"
        told = {"code": "rate_limit_exceeded" if limited else "server_error", "message": message}
        self.response["error"] = told
        yield self._event("error", code=code, message=message, param=None)
        yield self._event("response.failed", response=self._snapshot())

    def _finished(self, status: str) -> None:
        self.response["status"] = status
        if self._usage:
            self.response["usage"] = usage_object(self._usage, self._block)
        self.response["foreword"] = self._block or None

    def _searched(self, search: Search) -> Events:
        place, item_id = self._next("fs")
        item = search_item(item_id, search, status="in_progress")
        yield self._event("response.output_item.added", output_index=place, item=item)
        for state in ("in_progress", "searching", "completed"):
            name = f"response.file_search_call.{state}"
            yield self._event(name, output_index=place, item_id=item_id)
        self._output.append(search_item(item_id, search))
        yield self._event("response.output_item.done", output_index=place, item=self._output[place])

    def _delta(self, delta: JSONObject) -> Events:
        if thought := delta.get("reasoning_content"):
            yield from self._switch("reasoning")
            yield self._texted("response.reasoning_text.delta", thought)
        if text := delta.get("content"):
            yield from self._switch("message")
            yield self._texted("response.output_text.delta", text, logprobs=NO_LOGPROBS)
        for call in delta.get("tool_calls") or ():
            yield from self._called(call)

    def _called(self, call: JSONObject) -> Events:
        function, index = call.get("function") or {}, call.get("index", 0)
        if self._open != "function_call" or index != self._call_index:
            yield from self._close("completed")
            self._call_index = index
            self._call = {"call_id": call.get("id") or "", "name": function.get("name") or ""}
            yield from self._begin("function_call")
        if arguments := function.get("arguments"):
            self._text.append(arguments)
            place, item_id = self._current()
            yield self._event(
                "response.function_call_arguments.delta",
                output_index=place,
                item_id=item_id,
                delta=arguments,
            )

    def _texted(self, name: str, text: str, **fields: Any) -> JSONObject:
        self._text.append(text)
        place, item_id = self._current()
        return self._event(
            name, output_index=place, item_id=item_id, content_index=0, delta=text, **fields
        )

    def _switch(self, kind: str) -> Events:
        if self._open != kind:
            yield from self._close("completed")
            yield from self._begin(kind)

    def _begin(self, kind: str) -> Events:
        prefix = {"message": "msg", "reasoning": "rs", "function_call": "fc"}[kind]
        place, item_id = self._next(prefix)
        self._open, self._text = kind, []
        self._output.append(self._item(item_id, "in_progress"))
        item = self._output[place]
        yield self._event("response.output_item.added", output_index=place, item=item)
        if kind == "message":
            yield self._event(
                "response.content_part.added",
                output_index=place,
                item_id=item_id,
                content_index=0,
                part=text_part("", []),
            )

    def _close(self, status: str) -> Events:
        """The item that is being written ends."""
        if self._open is None:
            return
        place, item_id = self._current()
        kind = self._open
        item = self._keep(status)
        at = {"output_index": place, "item_id": item_id}
        match kind:
            case "message":
                yield from self._close_text(at, item["content"][0])
            case "reasoning":
                text = "".join(self._text)
                yield self._event("response.reasoning_text.done", **at, content_index=0, text=text)
            case "function_call":
                name = "response.function_call_arguments.done"
                yield self._event(name, **at, arguments=item["arguments"])
        yield self._event("response.output_item.done", output_index=place, item=item)

    def _close_text(self, at: JSONObject, part: JSONObject) -> Events:
        for number, annotation in enumerate(part["annotations"]):
            yield self._event(
                "response.output_text.annotation.added",
                **at,
                content_index=0,
                annotation_index=number,
                annotation=annotation,
            )
        text = part["text"]
        yield self._event(
            "response.output_text.done", **at, content_index=0, text=text, logprobs=NO_LOGPROBS
        )
        yield self._event("response.content_part.done", **at, content_index=0, part=part)

    def _keep(self, status: str) -> JSONObject:
        """The item that is being written, as it stays in the output."""
        if self._open is None:
            return {}
        place, item_id = self._current()
        self._output[place] = self._item(item_id, status)
        self._open = None
        return self._output[place]

    def _item(self, item_id: str, status: str) -> JSONObject:
        text = "".join(self._text)
        match self._open:
            case "reasoning":
                return reasoning_item(item_id, status, text)
            case "function_call":
                return call_item(item_id, status, self._call | {"arguments": text})
        if status == "in_progress":
            return message_item(item_id, status, [])
        cited = [citation(found, text) for found in self._block.get("citations") or ()]
        return message_item(item_id, status, [text_part(text, cited)])

    def _next(self, prefix: str) -> tuple[int, str]:
        place = len(self._output)
        return place, self._frame.item_id(prefix, place)

    def _current(self) -> tuple[int, str]:
        place = len(self._output) - 1
        return place, self._output[place]["id"]

    def _snapshot(self) -> JSONObject:
        return self.response | {"output": list(self._output)}

    def _event(self, name: str, **fields: Any) -> JSONObject:
        number, self._number = self._number, self._number + 1
        return {"type": name, "sequence_number": number, **fields}


def as_part(answer: JSONObject) -> JSONObject:
    """A whole chat completion as a stream's only part."""
    choices = []
    for choice in answer.get("choices") or ():
        message = choice.get("message") or {}
        calls = [call | {"index": i} for i, call in enumerate(message.get("tool_calls") or ())]
        delta = message | {"tool_calls": calls}
        choices.append({
            "index": choice.get("index", 0),
            "delta": delta,
            "finish_reason": choice.get("finish_reason"),
        })  # fmt: skip
    return {
        "choices": choices,
        "usage": answer.get("usage"),
        "foreword": answer.get("foreword"),
    }
