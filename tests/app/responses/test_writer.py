"""The events of a response, in their order, and the object that they lead to."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.responses.bodies import ResponsesRequest
from app.responses.objects import Frame, Search
from app.responses.writer import ResponseWriter, as_part

USAGE = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24, "reasoning_tokens": 0}
CITED = [{"file_id": "file-1", "document": "fares.md", "index": 5}]
BLOCK = {"cached_tokens": 16, "citations": CITED}


def writer(search: Search | None = None) -> ResponseWriter:
    request = ResponsesRequest.model_validate({"model": "default", "input": "When?"})
    frame = Frame(id="resp_ab", model="tiny", created_at=1, request=request)
    return ResponseWriter(frame, search)


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


LAST = {"choices": [], "usage": USAGE, "foreword": BLOCK}


def written(made: ResponseWriter, *parts: dict[str, Any]) -> list[dict[str, Any]]:
    events = list(made.begin())
    for part in parts:
        events += made.part(part)
    return events + list(made.end(9))


def test_a_text_with_a_search_and_a_citation() -> None:
    made = writer(Search(queries=["When?"], results=None))
    said = (chunk(role="assistant"), chunk(content="At "), chunk("stop", content="9"))
    events = written(made, *said, LAST)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "file_search_call.in_progress",
        "file_search_call.searching",
        "file_search_call.completed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    note = {"type": "file_citation", "index": 5, "file_id": "file-1", "filename": "fares.md"}
    assert events[11]["annotation"] == note
    done = events[-1]["response"]
    assert done == made.response
    assert [item["type"] for item in done["output"]] == ["file_search_call", "message"]
    assert done["output"][1]["content"][0]["text"] == "At 9"
    assert done["output"][1]["content"][0]["annotations"] == [note]
    assert (done["status"], done["completed_at"]) == ("completed", 9)
    assert done["usage"]["input_tokens_details"] == {"cached_tokens": 16, "cache_write_tokens": 4}
    assert done["foreword"] == BLOCK


def test_earlier_events_are_not_changed_by_later_ones() -> None:
    made = writer()
    first, *_ = made.begin()
    list(made.part(chunk("stop", content="x")))
    list(made.end(9))
    assert first["response"]["status"] == "in_progress"
    assert first["response"]["output"] == []


def test_what_was_cached_is_unknown_not_zero() -> None:
    made = writer()
    written(made, chunk("stop", content="x"), LAST | {"foreword": {"cached_tokens": None}})
    details = made.response["usage"]["input_tokens_details"]
    assert details == {"cached_tokens": None, "cache_write_tokens": None}


def test_an_answer_that_is_cut_is_incomplete() -> None:
    made = writer()
    events = written(made, chunk("length", content="At"), LAST)
    assert events[-1]["type"] == "response.incomplete"
    assert made.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert made.response["output"][0]["status"] == "incomplete"
    assert made.response["completed_at"] is None


def test_an_answer_that_breaks_off_keeps_what_came() -> None:
    made = writer()
    events = [*made.begin(), *made.part(chunk(content="At"))]
    events += made.failed("the engine is gone", "engine_unreachable")
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-2]["code"] == "engine_unreachable"
    assert made.response["error"] == {"code": "server_error", "message": "the engine is gone"}
    assert made.response["output"][0]["content"][0]["text"] == "At"
    assert made.response["output"][0]["status"] == "incomplete"


def test_an_empty_answer_is_an_empty_message() -> None:
    made = writer()
    written(made, chunk("stop"), LAST)
    assert made.response["output"][0]["content"][0]["text"] == ""


def call(index: int, arguments: str, **named: str) -> dict[str, Any]:
    name = {"name": named["name"]} if "name" in named else {}
    made = {"index": index, "function": {"arguments": arguments, **name}}
    return made | ({"id": named["call_id"]} if "call_id" in named else {})


def test_thought_text_and_calls_are_items_of_their_own() -> None:
    made = writer()
    events = written(
        made,
        chunk(reasoning_content="Hm."),
        chunk(content="I look."),
        chunk(tool_calls=[call(0, "", name="now", call_id="c1")]),
        chunk(tool_calls=[call(0, '{"zone"')]),
        chunk(tool_calls=[call(0, ': "UTC"}'), call(1, "{}", name="later", call_id="c2")]),
        chunk("tool_calls"),
        LAST,
    )
    thought, said, first, second = made.response["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert said["content"][0]["text"] == "I look."
    assert (first["name"], first["call_id"], first["arguments"]) == ("now", "c1", '{"zone": "UTC"}')
    assert (second["name"], second["call_id"], second["arguments"]) == ("later", "c2", "{}")
    assert made.response["status"] == "completed"
    added = [event for event in events if event["type"] == "response.output_item.added"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [e["output_index"] for e in added] == [e["output_index"] for e in done] == [0, 1, 2, 3]
    assert len({item["id"] for item in made.response["output"]}) == 4


@given(st.lists(st.text(max_size=5), max_size=8), st.sampled_from(["stop", "length"]))
def test_whole_and_streamed_answers_lead_to_the_same_object(texts: list[str], finish: str) -> None:
    streamed, whole = writer(), writer()
    written(streamed, *(chunk(content=text) for text in texts), chunk(finish), LAST)
    message = {"role": "assistant", "content": "".join(texts)}
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    written(whole, as_part(LAST | {"choices": choices}))
    assert whole.response == streamed.response


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=8))
def test_the_deltas_are_the_text(texts: list[str]) -> None:
    events = written(writer(), *(chunk(content=text) for text in texts), chunk("stop"), LAST)
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    [done] = [e["text"] for e in events if e["type"] == "response.output_text.done"]
    assert "".join(deltas) == done == "".join(texts)
