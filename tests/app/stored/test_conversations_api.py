"""Conversations and stored responses through the unmodified OpenAI SDK."""

import threading
from typing import Any

import httpx
import openai
import pytest

from bench.engine_sim import SimulatorThread
from tests.app.openai_objects import exact

TURNS = 30
FIRST = "When does the ferry leave?"


def ask(client: openai.OpenAI, text: Any, **fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "model": "default", "input": text, "max_output_tokens": 8, "temperature": 0,
        "extra_body": {"ignore_eos": True},
    }  # fmt: skip
    return client.responses.create(**(defaults | fields))


def texts(client: openai.OpenAI, conversation_id: str) -> list[str]:
    page = client.conversations.items.list(conversation_id, order="asc", limit=100)
    return [each.content[0].text for each in page if each.type == "message"]  # type: ignore[union-attr]


def test_a_conversation_is_made_read_changed_and_deleted(client: openai.OpenAI) -> None:
    made = exact(client.conversations.create(metadata={"case": "7"}))
    assert made.id.startswith("conv_")
    assert exact(client.conversations.retrieve(made.id)) == made
    changed = exact(client.conversations.update(made.id, metadata={"case": "8"}))
    assert changed.metadata == {"case": "8"}
    gone = exact(client.conversations.delete(made.id))
    assert (gone.id, gone.deleted) == (made.id, True)
    with pytest.raises(openai.NotFoundError) as refused:
        client.conversations.retrieve(made.id)
    assert refused.value.code == "conversation_not_found"
    with pytest.raises(openai.NotFoundError):
        client.conversations.delete(made.id)


def test_items_are_kept_in_order_and_as_they_came(client: openai.OpenAI) -> None:
    made = client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "One"}]
    )
    result = '{"depart":  "nine"}'
    added = exact(
        client.conversations.items.create(
            made.id,
            items=[
                {"role": "assistant", "content": "Two"},
                {
                    "type": "function_call", "call_id": "c1", "name": "timetable",
                    "arguments": '{ "port":"Arvik" }',
                },
                {"type": "function_call_output", "call_id": "c1", "output": result},
            ],
        )
    )  # fmt: skip
    assert [item.type for item in added.data] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    listed = list(client.conversations.items.list(made.id, order="asc", limit=1))
    assert [item.type for item in listed] == [
        "message", "message", "function_call", "function_call_output",
    ]  # fmt: skip
    assert listed[2].arguments == '{ "port":"Arvik" }'  # type: ignore[union-attr]
    assert listed[3].output == result  # type: ignore[union-attr]
    newest = client.conversations.items.list(made.id, limit=1)
    assert newest.data[0].id == listed[3].id
    one = client.conversations.items.retrieve(listed[1].id or "", conversation_id=made.id)
    assert one == listed[1]
    client.conversations.items.delete(listed[1].id or "", conversation_id=made.id)
    assert len(list(client.conversations.items.list(made.id))) == 3
    with pytest.raises(openai.NotFoundError) as refused:
        client.conversations.items.retrieve(listed[1].id or "", conversation_id=made.id)
    assert refused.value.code == "item_not_found"


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([{"type": "message", "role": "user"}], "items.0.content"),
        ([{"role": "user"}], "items.0.content"),
        ([{"role": "pirate", "content": "Ahoy"}], "items.0.role"),
        ([{"type": "web_search_call", "id": "w"}], "items.0"),
        ([{"role": "user", "content": "x"}] * 21, "items"),
    ],
)
def test_items_that_could_not_be_answered_are_refused(
    client: openai.OpenAI, items: list[Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.conversations.create(items=items)
    assert refused.value.param == param
    made = client.conversations.create()
    with pytest.raises(openai.BadRequestError) as refused:
        client.conversations.items.create(made.id, items=items)
    assert refused.value.param == param


def test_a_turn_answers_the_calls_before_it(client: openai.OpenAI) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    asked = [{"role": "user", "content": "x"}, call]
    made = client.conversations.create(items=asked)  # type: ignore[arg-type]
    with pytest.raises(openai.BadRequestError, match="No tool output found for function call c1"):
        ask(client, "Well?", conversation=made.id)
    output = {"type": "function_call_output", "call_id": "c2", "output": "9"}
    with pytest.raises(openai.BadRequestError, match=r"No tool call found .* call_id c2"):
        ask(client, [output], conversation=made.id)
    with pytest.raises(openai.BadRequestError, match="call_id c2"):
        ask(client, [output])
    with pytest.raises(openai.BadRequestError, match="for function call c1"):
        ask(client, asked)
    assert ask(client, [output | {"call_id": "c1"}], conversation=made.id).id


def test_what_is_included_is_served_or_refused(client: openai.OpenAI) -> None:
    answer = ask(client, FIRST)
    taken: list[Any] = ["file_search_call.results"]
    assert client.responses.retrieve(answer.id, include=taken).id == answer.id
    assert len(client.responses.input_items.list(answer.id, include=taken).data) == 1
    refused: list[Any] = ["nope"]
    for asked in (client.responses.retrieve, client.responses.input_items.list):
        with pytest.raises(openai.BadRequestError, match="'nope' is not served") as told:
            asked(answer.id, include=refused)
        assert told.value.param == "include"


def test_calls_are_bounded_and_told(client: openai.OpenAI) -> None:
    assert ask(client, FIRST, max_tool_calls=3).max_tool_calls == 3
    with pytest.raises(openai.BadRequestError):
        ask(client, FIRST, max_tool_calls=-1)


@pytest.mark.parametrize("name", ["f g", "f" * 65, "f.g", "é"])
def test_functions_have_openais_names(client: openai.OpenAI, name: str) -> None:
    function = {"name": name, "parameters": {"type": "object"}}
    with pytest.raises(openai.BadRequestError, match="no function's name") as refused:
        ask(client, FIRST, tools=[{"type": "function", **function}])
    assert refused.value.param == "tools.0.name"
    with pytest.raises(openai.BadRequestError, match="no function's name") as refused:
        client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": FIRST}],
            tools=[{"type": "function", "function": function}],  # type: ignore[list-item]
        )
    assert refused.value.param == "tools.0.function.name"


def test_a_turn_goes_on_from_all_that_was_said(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[{"role": "user", "content": "I am in Arvik."}])
    client.conversations.items.create(
        made.id, items=[{"role": "assistant", "content": "Good to know."}]
    )
    first = exact(ask(client, FIRST, conversation=made.id))
    assert first.conversation is not None
    assert (first.conversation.id, first.store) == (made.id, True)
    second = ask(client, "And back?", conversation={"id": made.id})
    said = texts(client, made.id)
    assert said == [
        "I am in Arvik.", "Good to know.", FIRST, first.output_text, "And back?",
        second.output_text,
    ]  # fmt: skip
    # The same as when the client sends all of it.
    pairs = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(said[:-1])
    ]
    whole = ask(client, pairs)
    assert whole.usage.input_tokens == second.usage.input_tokens
    assert whole.output_text == second.output_text


@pytest.mark.parametrize("streams", [False, True])
def test_twenty_turns_re_use_all_but_what_is_new(client: openai.OpenAI, streams: bool) -> None:
    made = client.conversations.create(items=[{"role": "user", "content": f"Hello {streams}."}])
    ideal = cached = 0
    before = 0
    for number in range(20):
        text = f"Question {number} about the harbour, please."
        if streams:
            events = list(ask(client, text, conversation=made.id, stream=True))
            assert events[-1].type == "response.incomplete"
            assert [e.sequence_number for e in events] == list(range(len(events)))
            answer = events[-1].response
        else:
            answer = ask(client, text, conversation=made.id)
        block = answer.foreword
        if number:
            assert block["verdict"] == "hit", block
            # The last token of an answer was never an input: its KV isn't there.
            assert block["cached_tokens"] >= before - 1 - 16
            ideal += block["ideal_tokens"]
            cached += block["cached_tokens"]
        before = answer.usage.total_tokens
    assert cached >= 0.99 * ideal > 0
    assert len(texts(client, made.id)) == 41


def test_a_response_is_fetched_gone_on_from_and_forgotten(client: openai.OpenAI) -> None:
    first = ask(client, "How deep is the harbour?")
    assert exact(client.responses.retrieve(first.id)).output_text == first.output_text
    [asked] = client.responses.input_items.list(first.id).data
    assert asked.content[0].text == "How deep is the harbour?"  # type: ignore[union-attr]
    second = exact(ask(client, "In metres?", previous_response_id=first.id))
    assert second.previous_response_id == first.id
    third = ask(client, "And at low tide?", previous_response_id=second.id)
    other = ask(client, "And in feet?", previous_response_id=first.id)  # another branch
    for answer in (second, third, other):
        assert answer.foreword["verdict"] == "hit"
    assert third.usage.input_tokens > second.usage.total_tokens
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError) as gone:
        client.responses.retrieve(second.id)
    assert gone.value.code == "response_not_found"
    with pytest.raises(openai.NotFoundError, match=second.id):
        ask(client, "Still there?", previous_response_id=second.id)
    fourth = ask(client, "Still there?", previous_response_id=third.id)
    assert fourth.foreword["cached_tokens"] >= third.usage.total_tokens - 17
    unstored = ask(client, "A secret.", store=False)
    assert unstored.store is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unstored.id)


def test_a_response_of_a_conversation_is_gone_on_from_there(client: openai.OpenAI) -> None:
    made = client.conversations.create()
    answer = ask(client, FIRST, conversation=made.id)
    with pytest.raises(openai.BadRequestError, match=made.id) as refused:
        ask(client, "More?", previous_response_id=answer.id)
    assert refused.value.param == "previous_response_id"
    with pytest.raises(openai.BadRequestError, match="exclude each other"):
        ask(client, "More?", previous_response_id=answer.id, conversation=made.id)
    client.conversations.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)


def test_a_fork_keeps_what_the_engine_holds_and_goes_its_own_way(
    client: openai.OpenAI, gateway: str
) -> None:
    made = client.conversations.create(metadata={"case": "fork"})
    first = ask(client, "Which islands are there in the north?", conversation=made.id)
    ask(client, "And in the south?", conversation=made.id)
    with httpx.Client(base_url=gateway, trust_env=False) as http:
        path = f"/foreword/conversations/{made.id}/fork"
        fork = http.post(path, json={"item": first.output[-1].id})
        assert fork.status_code == 201, fork.text
        branch = fork.json()
        assert branch["foreword"]["forked_from"] == made.id
        assert branch["metadata"] == {"case": "fork"}
        missing = http.post(path, json={"item": "msg_none"})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "item_not_found")
    other = ask(client, "And in the west?", conversation=branch["id"])
    assert other.foreword["verdict"] == "hit"
    assert other.foreword["cached_tokens"] >= first.usage.total_tokens - 17
    assert len(texts(client, made.id)) == len(texts(client, branch["id"])) == 4


def test_conversations_are_listed_in_pages(client: openai.OpenAI, gateway: str) -> None:
    ids = [client.conversations.create(metadata={"n": str(n)}).id for n in range(3)]
    with httpx.Client(base_url=gateway, trust_env=False) as http:
        page = http.get("/foreword/conversations", params={"limit": 2}).json()
        assert [each["id"] for each in page["data"]] == ids[:0:-1]
        assert page["has_more"]
        rest = {"limit": 1, "after": page["last_id"]}
        assert http.get("/foreword/conversations", params=rest).json()["first_id"] == ids[0]
        oldest = http.get("/foreword/conversations", params={"order": "asc", "limit": 100}).json()
        assert [each["id"] for each in oldest["data"]][-3:] == ids


def test_a_second_turn_at_a_time_is_refused_and_nothing_of_it_is_kept(
    client: openai.OpenAI,
) -> None:
    made = client.conversations.create()
    with ask(client, FIRST, conversation=made.id, stream=True, max_output_tokens=400) as stream:
        next(iter(stream))
        with pytest.raises(openai.ConflictError, match="another turn") as refused:
            ask(client, "Me too!", conversation=made.id)
        assert refused.value.code == "conversation_locked"
        assert refused.value.response.headers["retry-after"] == "1"
        with pytest.raises(openai.ConflictError):
            client.conversations.items.create(made.id, items=[{"role": "user", "content": "x"}])
    # Its client left: the turn never was.
    _until_free(client, made.id)
    said = texts(client, made.id)
    assert said[0] == "Now?"
    assert FIRST not in said


def test_the_sdk_s_retries_put_turns_one_after_the_other(client: openai.OpenAI) -> None:
    made = client.conversations.create()
    patient = client.with_options(max_retries=8)
    asked = [f"Number {n}?" for n in range(3)]
    threads = [
        threading.Thread(target=ask, args=(patient, text), kwargs={"conversation": made.id})
        for text in asked
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = texts(client, made.id)
    assert sorted(said[::2]) == asked
    assert len(said) == 6


def _until_free(client: openai.OpenAI, conversation_id: str) -> None:
    ask(client.with_options(max_retries=6), "Now?", conversation=conversation_id)


def test_a_turn_that_fails_leaves_nothing_and_the_conversation_free(
    client: openai.OpenAI, simulator: SimulatorThread
) -> None:
    made = client.conversations.create()
    with pytest.raises(openai.BadRequestError):
        ask(client, FIRST, conversation=made.id, temperature=0, extra_body={"n": 0})
    assert texts(client, made.id) == []
    assert ask(client, FIRST, conversation=made.id).id
    with pytest.raises(
        openai.BadRequestError, match=f"conversation {made.id} makes a prompt of"
    ) as refused:
        ask(client, "word " * 40_000, conversation=made.id)
    assert refused.value.code == "context_length_exceeded"
    assert refused.value.param == "input"
    assert len(texts(client, made.id)) == 2


@pytest.mark.parametrize("streams", [False, True])
def test_a_conversation_is_free_before_its_client_hears_that_a_turn_has_failed(
    client: openai.OpenAI, simulator: SimulatorThread, streams: bool
) -> None:
    """Each turn is asked for when the last word of the one before is read, or its last event."""
    made = client.conversations.create()
    kind = {"kind": "drop", "after_chunks": 2} if streams else {"kind": "error", "status": 400}
    fault = {**kind, "times": TURNS}
    httpx.post(f"{simulator.url}/simulator/faults", json=fault, trust_env=False).raise_for_status()
    for number in range(TURNS):
        if not streams:
            with pytest.raises(openai.BadRequestError):
                ask(client, f"Refused {number}?", conversation=made.id)
            continue
        events = iter(ask(client, f"Broken off {number}?", conversation=made.id, stream=True))
        for event in events:
            if event.type in ("error", "response.failed"):
                break
    assert ask(client, "And now?", conversation=made.id).id
    assert len(texts(client, made.id)) == 2


def test_an_isolated_conversation_shares_no_kv(client: openai.OpenAI) -> None:
    def start() -> Any:
        made = client.conversations.create(extra_body={"foreword": {"isolated": True}})
        return made, ask(client, "What is kept apart, and what is not?", conversation=made.id)

    made, first = start()
    _, second = start()
    assert first.foreword["cached_tokens"] == second.foreword["cached_tokens"] == 0
    more = ask(client, "And now?", conversation=made.id)
    assert more.foreword["cached_tokens"] >= first.usage.total_tokens - 17
    assert client.conversations.delete(made.id).deleted
