"""`/v1/batches` through the unmodified OpenAI SDK: upload, create, poll, read."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types import Batch

from tests.app.batches.requests import CHAT, chat_line, ended, line, read, run, upload
from tests.app.openai_objects import exact


def test_every_line_is_answered_in_the_files_order(client: openai.OpenAI) -> None:
    lines = [chat_line(f"q-{n}", f"Question {n % 3}?") for n in range(20)]
    batch = exact(run(client, lines, metadata={"job": "nightly"}))
    assert (batch.status, batch.error_file_id, batch.errors) == ("completed", None, None)
    counts = batch.request_counts
    assert counts is not None
    assert (counts.total, counts.completed, counts.failed) == (20, 20, 0)
    assert batch.metadata == {"job": "nightly"}
    assert batch.in_progress_at is not None
    assert batch.completed_at is not None
    assert batch.expires_at == batch.created_at + 24 * 3600
    output = read(client, batch.output_file_id)
    assert [each["custom_id"] for each in output] == [f"q-{n}" for n in range(20)]
    assert len({each["id"] for each in output}) == 20
    for each in output:
        assert each["error"] is None
        assert each["response"]["status_code"] == 200
        assert each["response"]["body"]["object"] == "chat.completion"
        assert each["response"]["request_id"] == each["response"]["body"]["id"]
    assert batch.output_file_id is not None
    file = client.files.retrieve(batch.output_file_id)
    assert (file.purpose, file.filename) == ("batch_output", f"{batch.id}_output.jsonl")


@pytest.mark.parametrize(
    ("endpoint", "body", "kind"),
    [
        ("/v1/completions", {"prompt": "Once", "max_tokens": 3}, "text_completion"),
        ("/v1/embeddings", {"input": "Once"}, "list"),
        ("/v1/responses", {"input": "Once", "max_output_tokens": 16}, "response"),
    ],
)
def test_other_endpoints(
    client: openai.OpenAI, endpoint: str, body: dict[str, Any], kind: str
) -> None:
    lines = [line(f"{n}", endpoint, {"model": "default", **body}) for n in range(3)]
    batch = run(client, lines, endpoint)
    output = read(client, batch.output_file_id)
    assert [each["response"]["body"]["object"] for each in output] == [kind] * 3


def _turn(custom_id: str, text: str, **more: Any) -> bytes:
    body = {"model": "default", "input": text, "max_output_tokens": 4, **more}
    return line(custom_id, "/v1/responses", body)


def _asked(client: openai.OpenAI, conversation_id: str) -> list[str]:
    page = client.conversations.items.list(conversation_id, order="asc", limit=100)
    return [each.content[0].text for each in page if getattr(each, "role", "") == "user"]  # type: ignore[union-attr]


def test_turns_of_conversations_come_in_the_files_order_each_on_top_of_the_one_before(
    client: openai.OpenAI,
) -> None:
    talks = [client.conversations.create().id for _ in range(3)]
    lines = [
        # As ids, as objects, and with texts and instructions in no order.
        _turn(
            f"{n}-{at}",
            f"{9 - n} of {at}?",
            conversation={"id": talk} if n % 2 else talk,
            **({"instructions": f"Be {9 - n}."} if at == 1 else {}),
        )
        for n in range(6)
        for at, talk in enumerate(talks)
    ]
    batch = run(client, lines, "/v1/responses")
    counts = batch.request_counts
    assert counts is not None
    assert (counts.completed, counts.failed, batch.error_file_id) == (18, 0, None)
    for at, talk in enumerate(talks):
        assert _asked(client, talk) == [f"{9 - n} of {at}?" for n in range(6)]


def test_a_line_waits_for_a_conversation_that_a_live_client_has(client: openai.OpenAI) -> None:
    talk = client.conversations.create().id
    with client.responses.create(
        model="default", input="Mine?", conversation=talk, stream=True, max_output_tokens=400
    ) as stream:
        events = iter(stream)
        next(events)
        lines = [_turn("held", "Yours?", conversation=talk), _turn("free", "Anybody's?")]
        made = client.batches.create(
            input_file_id=upload(client, lines), endpoint="/v1/responses", completion_window="24h"
        )
        while (now := client.batches.retrieve(made.id).request_counts) is None or not now.completed:
            assert next(events, None) is not None  # the turn goes on
        assert (now.completed, now.failed) == (1, 0)
        for _ in events:
            pass
    batch = ended(client, made.id)
    assert batch.request_counts is not None
    assert (batch.request_counts.completed, batch.request_counts.failed) == (2, 0)
    assert _asked(client, talk) == ["Mine?", "Yours?"]


def test_a_line_in_the_ledger_is_like_any_request(client: openai.OpenAI, gateway: str) -> None:
    batch = run(client, [chat_line("a", "Why?")])
    name = read(client, batch.output_file_id)[0]["response"]["request_id"]
    answer = httpx.get(f"{gateway}/foreword/explain/{name}", trust_env=False)
    for _ in range(50):
        if answer.status_code == 200:
            break
        answer = httpx.get(f"{gateway}/foreword/explain/{name}", trust_env=False)
    assert answer.status_code == 200, answer.text


def test_what_a_line_does_wrong_is_in_the_error_file(client: openai.OpenAI) -> None:
    lines = [
        chat_line("good", "Why?"),
        chat_line("strange", "Why?", colour="blue"),
        chat_line("nobody", "Why?", model="gpt-unknown"),
    ]
    batch = exact(run(client, lines))
    counts = batch.request_counts
    assert counts is not None
    assert (batch.status, counts.completed, counts.failed) == ("completed", 1, 2)
    assert [each["custom_id"] for each in read(client, batch.output_file_id)] == ["good"]
    strange, nobody = read(client, batch.error_file_id)
    assert (strange["custom_id"], strange["response"]["status_code"]) == ("strange", 400)
    assert "colour" in strange["response"]["body"]["error"]["message"]
    assert nobody["response"]["body"]["error"]["code"] == "model_not_found"


def test_a_file_that_is_at_fault_is_told_line_by_line(client: openai.OpenAI) -> None:
    lines = [chat_line("a", "Why?"), b"nonsense\n", chat_line("a", "Why?")]
    batch = exact(run(client, lines))
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("failed", None, None)
    assert batch.errors is not None
    assert batch.errors.data is not None
    told = [(each.code, each.line, each.param) for each in batch.errors.data]
    assert told == [("invalid_json_line", 2, None), ("duplicate_custom_id", 3, "custom_id")]
    assert batch.failed_at is not None


def test_lists_are_pages(client: openai.OpenAI) -> None:
    made = [run(client, [chat_line(f"{n}", "Why?")]).id for n in range(3)]
    first = client.batches.list(limit=2)
    assert [batch.id for batch in first.data] == made[:0:-1]
    assert first.has_more
    assert [batch.id for batch in client.batches.list(limit=2)][:3] == made[::-1]


def test_a_cancelled_batch_says_of_every_line_what_became_of_it(client: openai.OpenAI) -> None:
    lines = [chat_line(f"{n}", f"Why {n}?", max_tokens=200) for n in range(300)]
    made = client.batches.create(
        input_file_id=upload(client, lines), endpoint=CHAT, completion_window="24h"
    )
    stopped = exact(client.batches.cancel(made.id))
    assert stopped.status in ("cancelling", "cancelled")
    batch: Batch = exact(ended(client, made.id))
    assert batch.status == "cancelled"
    assert batch.cancelled_at is not None
    errors = read(client, batch.error_file_id) if batch.error_file_id else []
    output = read(client, batch.output_file_id) if batch.output_file_id else []
    if batch.request_counts and batch.request_counts.total:
        assert len(errors) + len(output) == 300
        assert batch.request_counts.completed == len(output)
        assert batch.request_counts.failed == len(errors)
        assert errors[-1]["error"]["code"] == "batch_cancelled"
    assert client.batches.cancel(made.id).status == "cancelled"


def test_what_has_ended_is_not_cancelled(client: openai.OpenAI) -> None:
    batch = run(client, [chat_line("a", "Why?")])
    with pytest.raises(openai.ConflictError) as caught:
        client.batches.cancel(batch.id)
    assert caught.value.code == "batch_ended"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"input_file_id": "file-none"}, 404, "file-none"),
        ({"endpoint": "/v1/images"}, 400, "endpoint"),
        ({"completion_window": "1h"}, 400, "completion_window"),
        ({"colour": "blue"}, 400, "colour"),
        ({"metadata": {"a": 1}}, 400, "metadata"),
    ],
)
def test_what_is_no_batch_is_told(
    client: openai.OpenAI, gateway: str, change: dict[str, Any], status: int, words: str
) -> None:
    file_id = upload(client, [chat_line("a", "Why?")])
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h", **change}
    answer = httpx.post(f"{gateway}/v1/batches", json=body, trust_env=False)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]["message"]


def test_a_file_of_another_purpose_is_refused(client: openai.OpenAI) -> None:
    file = client.files.create(file=("a.jsonl", chat_line("a", "Why?")), purpose="user_data")
    with pytest.raises(openai.BadRequestError) as caught:
        client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert caught.value.param == "input_file_id"


def test_the_guides_example_runs(gateway: str) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "batches.md").read_text()
    found = re.search(r"```python\n(.*?)```", guide, re.DOTALL)
    assert found is not None
    source = found[1].replace("http://127.0.0.1:8400", gateway)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "docs/batches.md", "exec"), {})
    assert [f'"custom_id":"q-{n}"' in printed.getvalue() for n in range(3)] == [True] * 3
