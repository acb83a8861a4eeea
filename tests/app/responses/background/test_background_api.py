"""`background: true` through the unmodified OpenAI SDK: queued, polled, streamed, cancelled."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.responses import Response

from bench.engine_sim import ClockConfig, SimulatorConfig, SimulatorThread
from tests.app.openai_objects import exact
from tests.app.responses.background.asking import (
    UNDER_WAY,
    asked,
    ended,
    once,
    wait_until_idle,
)
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

# Two and a half minutes of the slow engine: nobody waits so long for it to be idle.
LONG = 7500
F = {"type": "function", "name": "f", "parameters": {"type": "object"}}


@pytest.fixture(scope="module")
def slow(tokenizer_folder: Path) -> Iterator[SimulatorThread]:
    """An engine that takes minutes for a long answer."""
    config = SimulatorConfig(model_path=tokenizer_folder, clock=ClockConfig(speedup=1))
    with SimulatorThread(config) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def patient(
    slow: SimulatorThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    settings = gateway_settings(tmp_path_factory.mktemp("slow"), slow.url)
    with (
        running_gateway(settings) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as made,
    ):
        wait_until_ready(url)
        yield made


def test_it_is_queued_at_once_and_answered_in_the_background(client: openai.OpenAI) -> None:
    made = exact(
        client.responses.create(
            model="default", input="Why?", background=True, metadata={"job": "7"}
        )
    )
    assert (made.status, made.background, made.output) == ("queued", True, [])
    response = exact(ended(client, made.id))
    assert (response.id, response.status, response.background) == (made.id, "incomplete", True)
    assert response.output_text
    assert response.metadata == {"job": "7"}
    assert response.created_at == made.created_at
    assert response.usage is not None
    assert response.usage.output_tokens > 0
    items = client.responses.input_items.list(made.id).data
    assert [item.type for item in items] == ["message"]


def test_one_goes_on_from_it(client: openai.OpenAI) -> None:
    first = ended(client, asked(client, "What is a ferry?"))
    then = client.responses.create(model="default", input="And?", previous_response_id=first.id)
    assert then.usage is not None
    assert first.usage is not None
    assert then.usage.input_tokens > first.usage.total_tokens


def test_its_turn_is_kept_in_its_conversation(client: openai.OpenAI) -> None:
    talk = client.conversations.create()
    ids = [asked(client, f"Question {n}?", conversation=talk.id, tokens=4) for n in range(3)]
    for each in ids:
        ended(client, each)
    items = client.conversations.items.list(talk.id, order="asc").data
    said = [item.content[0].text for item in items if getattr(item, "role", None) == "user"]  # type: ignore[union-attr]
    assert said == ["Question 0?", "Question 1?", "Question 2?"]
    assert len(items) == 6


def test_a_stream_can_be_taken_up_after_any_event(client: openai.OpenAI) -> None:
    stream = client.responses.create(
        model="default", input="Why?", background=True, stream=True, max_output_tokens=20
    )
    events = list(stream)
    kinds = [event.type for event in events]
    assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert kinds[-1] in ("response.completed", "response.incomplete")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    response_id = events[0].response.id  # type: ignore[union-attr]
    for after in (0, len(events) // 2, len(events) - 2):
        again = list(client.responses.retrieve(response_id, stream=True, starting_after=after))
        assert again == events[after + 1 :]
    assert list(client.responses.retrieve(response_id, stream=True)) == events
    assert list(client.responses.retrieve(response_id, stream=True, starting_after=9999)) == []
    with client.responses.stream(response_id=response_id) as followed:
        *_, last = followed
    assert last.response == client.responses.retrieve(response_id)  # type: ignore[union-attr]


def test_several_follow_one_while_it_is_made(patient: openai.OpenAI, slow: SimulatorThread) -> None:
    stream = patient.responses.create(
        model="default", input="Why?", background=True, stream=True, max_output_tokens=100
    )
    first = next(iter(stream))
    response_id = first.response.id  # type: ignore[union-attr]
    stream.close()  # a client that goes away takes nothing with it
    one = patient.responses.retrieve(response_id, stream=True, starting_after=2)
    other = patient.responses.retrieve(response_id, stream=True)
    ones, others = list(one), list(other)
    assert others[3:] == ones
    assert others[-1].type in ("response.completed", "response.incomplete")
    wait_until_idle(slow.url)


def test_cancelling_stops_the_engine_and_stands(
    patient: openai.OpenAI, slow: SimulatorThread
) -> None:
    response_id = asked(patient, tokens=LONG)
    once(patient, response_id, lambda response: response.status == "in_progress")
    stopped = exact(patient.responses.cancel(response_id))
    assert (stopped.id, stopped.status) == (response_id, "cancelled")
    wait_until_idle(slow.url)
    assert patient.responses.cancel(response_id).status == "cancelled"
    assert patient.responses.retrieve(response_id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="is cancelled"):
        patient.responses.create(model="default", input="x", previous_response_id=response_id)


def test_a_cancelled_stream_just_ends(patient: openai.OpenAI) -> None:
    stream = patient.responses.create(
        model="default", input="Why?", background=True, stream=True, max_output_tokens=LONG
    )
    kinds, response_id = list[str](), ""
    for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta" and kinds.count(event.type) == 3:
            patient.responses.cancel(response_id)
        if event.type == "response.created":
            response_id = event.response.id
    assert kinds[-1] == "response.output_text.delta"


def test_deleting_stops_it_too(patient: openai.OpenAI, slow: SimulatorThread) -> None:
    response_id = asked(patient, tokens=LONG)
    once(patient, response_id, lambda response: response.status == "in_progress")
    patient.responses.delete(response_id)
    wait_until_idle(slow.url)
    with pytest.raises(openai.NotFoundError):
        patient.responses.retrieve(response_id)


def test_what_has_ended_is_not_cancelled(client: openai.OpenAI) -> None:
    response = ended(client, asked(client))
    assert client.responses.cancel(response.id) == response


def test_what_a_request_does_wrong_is_told_when_it_is_tried(client: openai.OpenAI) -> None:
    response = exact(ended(client, asked(client, model="gpt-unknown")))
    assert response.status == "failed"
    assert response.error is not None
    assert response.error.code == "invalid_prompt"
    assert "gpt-unknown" in response.error.message


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"store": False}, 400, "leave store out"),
        ({"input": []}, 400, "nothing to answer"),
        ({"colour": "blue"}, 400, "colour"),
        ({"previous_response_id": "resp_none"}, 404, "resp_none"),
        ({"conversation": "conv_none"}, 404, "conv_none"),
        ({"tools": [F], "tool_choice": {"type": "function", "name": "g"}}, 400, "'g'"),
        ({"tool_choice": {"type": "function", "name": "g"}}, 400, "'g'"),
        (
            {
                "tools": [F],
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "g"}],
                },
            },
            400,
            "'g'",
        ),
        ({"prompt": {"id": "nowhere"}}, 404, "nowhere"),
        ({"foreword": {"collection": "nope"}}, 404, "nope"),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["nope"]}]}, 404, "nope"),
        ({"model": "agent:nobody"}, 404, "nobody"),
        ({"model": "agent:researcher", "foreword": {"collection": "nope"}}, 404, "nope"),
        ({"model": "agent:researcher", "input": []}, 400, "nothing to answer"),
    ],
)
def test_what_can_be_seen_at_once_is_refused_at_once(
    gateway: str, change: dict[str, object], status: int, words: str
) -> None:
    body = {"model": "default", "input": "Why?", "background": True, **change}
    answer = httpx.post(f"{gateway}/v1/responses", json=body, trust_env=False)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]["message"]


def test_it_is_refused_in_a_conversation_too(client: openai.OpenAI) -> None:
    talk = client.conversations.create()
    with pytest.raises(openai.BadRequestError, match="'g'"):
        asked(
            client, conversation=talk.id, tools=[F], tool_choice={"type": "function", "name": "g"}
        )
    # Nothing to say is something where somebody has spoken.
    client.responses.create(
        model="default", conversation=talk.id, input="Why?", max_output_tokens=4
    )
    assert ended(client, asked(client, "And?", conversation=talk.id)).output_text


def test_only_what_is_streamed_in_the_background_is_streamed_again(client: openai.OpenAI) -> None:
    plain = client.responses.create(model="default", input="Why?")
    quiet = ended(client, asked(client))
    for each in (plain.id, quiet.id):
        with pytest.raises(openai.BadRequestError, match="streamed again"):
            client.responses.retrieve(each, stream=True)
    with pytest.raises(openai.BadRequestError, match="can't be cancelled"):
        client.responses.cancel(plain.id)
    for missing in (
        lambda: client.responses.cancel("resp_none"),
        lambda: client.responses.retrieve("resp_none", stream=True),
    ):
        with pytest.raises(openai.NotFoundError):
            missing()


def test_many_at_once_are_all_answered(client: openai.OpenAI) -> None:
    ids = [asked(client, f"Question {n}?", tokens=4) for n in range(30)]
    answers: list[Response] = [ended(client, each) for each in ids]
    assert {answer.status for answer in answers} <= {"completed", "incomplete"}
    assert not [answer for answer in answers if answer.status in UNDER_WAY]
