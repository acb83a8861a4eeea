"""The Responses API through the unmodified OpenAI SDK: sync, async, streaming, with documents."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response

from bench.engine_sim import SimulatorThread
from tests.app.openai_objects import exact
from tests.app.vocabulary import vocabulary_document

QUESTION = "When does the ferry leave?"


RAG = {"foreword": {"mode": "rag"}, "ignore_eos": True}


def ask(client: openai.OpenAI, **fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "model": "default", "input": QUESTION, "max_output_tokens": 8, "temperature": 0,
        "extra_body": {"ignore_eos": True},
    }  # fmt: skip
    return client.responses.create(**(defaults | fields))


@pytest.fixture(scope="module")
def words(client: openai.OpenAI, tokenizer_folder: Path) -> str:
    """A vector store whose document holds every word that the simulated model may say."""
    store = client.vector_stores.create(name="words")
    document = vocabulary_document(tokenizer_folder)
    file = client.files.create(file=("words.txt", document), purpose="assistants")
    held = client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
    assert held.status == "completed", held.last_error
    return store.id


def search(store: str, **fields: Any) -> dict[str, Any]:
    return {"type": "file_search", "vector_store_ids": [store], **fields}


def cited(client: openai.OpenAI, store: str, **fields: Any) -> Response:
    """An answer with a citation; what the model says depends on what is asked."""
    for number in range(60):
        answer: Response = ask(
            client,
            input=f"Question {number}?",
            tools=[search(store)],
            max_output_tokens=1,
            extra_body=RAG,
            **fields,
        )
        if any(c.annotations for i in answer.output if i.type == "message" for c in i.content):  # type: ignore[union-attr]
            return answer
    raise AssertionError("no answer had a word of the document")


def test_a_response_is_exact_and_has_a_foreword_block(client: openai.OpenAI) -> None:
    ask(client)
    answer = exact(ask(client, metadata={"ticket": "7"}, user="ann"))
    assert answer.id.startswith("resp_")
    assert answer.id == answer.foreword["request_id"]
    assert answer.output_text
    assert (answer.model, answer.status, answer.store) == ("tiny", "incomplete", True)
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert (answer.metadata, answer.user) == ({"ticket": "7"}, "ann")
    usage = answer.usage
    assert usage.output_tokens == 8
    assert usage.total_tokens == usage.input_tokens + 8
    assert usage.input_tokens_details.cached_tokens == answer.foreword["cached_tokens"] > 0
    assert answer.foreword["template"] == "chat@1"
    assert answer.foreword["verdict"] == "hit"


def test_a_response_and_a_chat_completion_are_one_prompt(client: openai.OpenAI) -> None:
    """Each re-uses all that the other computed, as far as whole pages go."""
    messages: list[Any] = [
        {"role": "system", "content": "Answer in French, please, and only in French."},
        {"role": "user", "content": "How long is the crossing to the island?"},
    ]
    chat = client.chat.completions.create(model="default", messages=messages, max_tokens=4)
    answer = ask(client, instructions=messages[0]["content"], input=messages[1]["content"])
    assert chat.usage is not None
    assert answer.usage.input_tokens == chat.usage.prompt_tokens
    assert answer.usage.input_tokens_details.cached_tokens >= chat.usage.prompt_tokens - 17


def test_a_stream_leads_to_the_same_response(client: openai.OpenAI) -> None:
    whole = ask(client)
    events = [exact(event) for event in ask(client, stream=True)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == whole.output_text
    assert events[-1].response.foreword["ttft_s"] > 0
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text


def test_the_sdks_own_stream_helper_follows(client: openai.OpenAI) -> None:
    with client.responses.stream(
        model="default", input=QUESTION, max_output_tokens=8, temperature=0
    ) as stream:
        snapshots = [e.snapshot for e in stream if e.type == "response.output_text.delta"]
    assert snapshots[-1] == ask(client).output_text


def test_the_async_client_streams_and_answers(gateway: str) -> None:
    async def run() -> tuple[str, str]:
        async with openai.AsyncOpenAI(base_url=f"{gateway}/v1", api_key="unused") as client:
            fields: dict[str, Any] = {
                "model": "tiny", "input": QUESTION, "max_output_tokens": 8, "temperature": 0,
            }  # fmt: skip
            whole = await client.responses.create(**fields)
            stream = await client.responses.create(**fields, stream=True)
            parts = [e.delta async for e in stream if e.type == "response.output_text.delta"]
            return whole.output_text, "".join(parts)

    whole, streamed = asyncio.run(run())
    assert whole == streamed != ""


def test_a_search_cites_the_file(client: openai.OpenAI, words: str) -> None:
    answer = exact(cited(client, words, include=["file_search_call.results"]))
    found, message = answer.output
    assert found.type == "file_search_call"
    assert found.status == "completed"
    assert found.queries == [q for q in found.queries if q.startswith("Question ")]
    assert found.results
    assert {result.filename for result in found.results} == {"words.txt"}
    assert message.type == "message"
    [content] = message.content
    assert content.type == "output_text"
    [note] = content.annotations
    assert note.type == "file_citation"
    assert note.file_id == found.results[0].file_id
    assert note.filename == "words.txt"
    assert 0 <= note.index <= len(content.text)
    block: Any = answer.foreword  # type: ignore[attr-defined]
    assert (block["collection"], block["mode"]) == ("words", "rag")


def test_a_streamed_search_has_its_events_and_annotations(
    client: openai.OpenAI, words: str
) -> None:
    answer = cited(client, words)
    query = answer.output[0].queries[0]  # type: ignore[union-attr]
    fields: dict[str, Any] = {"input": query, "tools": [search(words)], "extra_body": RAG}
    stream = ask(client, **fields, max_output_tokens=1, stream=True)
    events = [exact(event) for event in stream]
    assert [event.type.removeprefix("response.") for event in events] == [
        "created", "in_progress",
        "output_item.added", "file_search_call.in_progress", "file_search_call.searching",
        "file_search_call.completed", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta",
        "output_text.annotation.added", "output_text.done", "content_part.done",
        "output_item.done", "incomplete",
    ]  # fmt: skip
    assert events[10].annotation.filename == "words.txt"
    assert events[-1].response.output[0].results is None, "results are shown when asked for"


def test_the_whole_collection_needs_no_query(client: openai.OpenAI, words: str) -> None:
    body = {"foreword": {"mode": "cag"}, "ignore_eos": True}
    answer = ask(client, tools=[search(words)], extra_body=body)
    assert answer.output[0].queries == []
    assert answer.foreword["mode"] == "cag"


def test_a_prompt_names_a_template(client: openai.OpenAI, words: str) -> None:
    answer = ask(client, prompt={"id": "docqa"}, tools=[search(words)])
    assert answer.foreword["template"].startswith("docqa@")
    assert answer.prompt.id == "docqa"
    with pytest.raises(openai.NotFoundError, match="chat@1"):
        ask(client, prompt={"id": "poem", "version": "3"})


def test_a_conversation_is_sent_again(client: openai.OpenAI) -> None:
    first = ask(client)
    again = ask(
        client,
        input=[
            {"role": "user", "content": QUESTION},
            *(item.model_dump() for item in first.output),
            {"role": "user", "content": "And in winter?"},
        ],
    )
    assert again.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens - 16


def test_functions_reach_the_prompt(client: openai.OpenAI) -> None:
    tool = {
        "type": "function",
        "name": "now",
        "description": "The time.",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
    answer = exact(ask(client, tools=[tool], tool_choice="auto"))
    assert answer.usage.input_tokens > ask(client).usage.input_tokens
    assert answer.tools[0].name == "now"


def test_documents_and_functions_together_are_refused_with_a_way_out(
    client: openai.OpenAI, words: str
) -> None:
    function = {"name": "now", "parameters": {"type": "object"}}
    tools: list[Any] = [search(words), {"type": "function", **function}]
    with pytest.raises(openai.BadRequestError, match="file_search and functions") as refused:
        ask(client, tools=tools)
    assert refused.value.param == "tools"
    assert "/v1/vector_stores/{id}/search" in refused.value.message
    with pytest.raises(openai.BadRequestError, match="or the collection") as refused:
        client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": QUESTION}],
            tools=[{"type": "function", "function": function}],  # type: ignore[list-item]
            extra_body={"foreword": {"collection": words}},
        )
    assert refused.value.param == "tools"
    answer = ask(client, tools=tools, tool_choice="none")
    assert [item.type for item in answer.output] == ["message"]


def test_an_answer_that_breaks_off_says_so(
    client: openai.OpenAI, simulator: SimulatorThread
) -> None:
    fault = {"kind": "drop", "after_chunks": 3}
    httpx.post(f"{simulator.url}/simulator/faults", json=fault, trust_env=False).raise_for_status()
    events = list(ask(client, stream=True))
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    failed = events[-1].response
    assert (failed.status, failed.error.code) == ("failed", "server_error")
    assert failed.output[0].status == "incomplete"


def test_an_engine_that_fails_at_once_is_an_http_error(
    client: openai.OpenAI, simulator: SimulatorThread
) -> None:
    for stream in (False, True):
        fault = {"kind": "error", "status": 500}
        httpx.post(f"{simulator.url}/simulator/faults", json=fault, trust_env=False)
        with pytest.raises(openai.InternalServerError) as caught:
            list(ask(client, stream=stream))
        assert caught.value.code == "engine_refused"


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"background": True, "store": False}, "store", "leave store out"),
        ({"tools": [{"type": "web_search"}]}, "tools.0", "'file_search', 'function'"),
        ({"extra_body": {"colour": 1}}, "colour", "not a field"),
        ({"extra_body": {"foreword": {"colour": 1}}}, "foreword.colour", "no such field"),
        ({"input": [{"role": "system", "content": "x"}]}, "input", "nothing to answer"),
        ({"input": "ferry " * 9000}, "input", "8192 tokens"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata", "16"),
        ({"max_output_tokens": 0}, "max_output_tokens", "greater than"),
        (
            {"text": {"format": {"type": "json_schema", "name": "x"}}},
            "text.format",
            "has a name and a schema",
        ),
    ],
)
def test_bad_requests_are_told_in_openais_shape(
    client: openai.OpenAI, fields: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **fields)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    assert words in caught.value.message


def test_an_unknown_vector_store_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no collection 'vs_none'"):
        ask(client, tools=[search("vs_none")])


def test_the_ledger_has_responses_like_all_requests(client: openai.OpenAI, gateway: str) -> None:
    answer = ask(client)
    url = f"{gateway}/foreword/explain/{answer.id}"
    story = json.loads(httpx.get(url, trust_env=False).text)
    assert story["request_id"] == answer.id
    assert story["template"] == "chat@1"


def test_input_tokens_are_those_of_the_prompt_that_is_made(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "default", "input": "When?", "instructions": "Be brief."}
    counted = client.responses.input_tokens.count(**asked)
    assert counted.object == "response.input_tokens"
    first = client.responses.create(**asked, max_output_tokens=4)
    assert first.usage is not None
    assert counted.input_tokens == first.usage.input_tokens
    goes_on = {"model": "default", "input": "Why?", "previous_response_id": first.id}
    longer = client.responses.input_tokens.count(**goes_on)
    second = client.responses.create(**goes_on, max_output_tokens=4)
    assert second.usage is not None
    assert longer.input_tokens == second.usage.input_tokens > counted.input_tokens


def test_input_tokens_of_a_conversation_are_counted_without_taking_a_turn(
    client: openai.OpenAI,
) -> None:
    conversation = client.conversations.create(items=[{"role": "user", "content": "I am Ada."}])
    asked: dict[str, Any] = {"conversation": conversation.id, "input": "Who am I?"}
    counted = client.responses.input_tokens.count(**asked).input_tokens
    assert counted > client.responses.input_tokens.count(input="Who am I?").input_tokens
    assert len(client.conversations.items.list(conversation.id).data) == 1
    made = client.responses.create(model="default", **asked, max_output_tokens=4)
    assert made.usage is not None
    assert counted == made.usage.input_tokens


def test_input_tokens_may_be_more_than_the_model_reads(client: openai.OpenAI) -> None:
    assert client.responses.input_tokens.count(input="ferry " * 9000).input_tokens > 8192


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": "x", "personality": "friendly"}, "personality"),
        ({"input": "x", "model": "agent:researcher"}, "model"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input.0.content.0"),
    ],
)
def test_what_has_no_prompt_is_not_counted(
    client: openai.OpenAI, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.input_tokens.count(**fields)
    assert caught.value.param == param
