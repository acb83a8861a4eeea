"""A person's first minutes: the commands that `foreword up` prints, and what they show.

On the real SGLang, LMCache and SmolLM2. Order matters: the questions follow each other.
"""

import asyncio
import json
import time
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.conftest import UserStack

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

HELLO: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]


def _printed_commands(printed: str) -> list[str]:
    lines = [line.strip() for line in printed.splitlines()]
    return [line for line in lines if line.startswith(("curl", "foreword", "FOREWORD_HOME"))]


def test_the_printed_commands_answer_a_question_from_the_samples(user_stack: UserStack) -> None:
    commands = _printed_commands(user_stack.printed)
    assert [c.split()[0] for c in commands if "curl" in c]
    for command in commands:
        done = user_stack.run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    answer = done.stdout
    assert "[1] " in answer, answer
    assert "re-used" in answer


def test_the_second_question_by_cag_reuses_nearly_all_of_the_prompt(
    user_stack: UserStack,
) -> None:
    blocks = []
    for question in ("How much is a dog ticket?", "When does the ship leave Port Ellery?"):
        done = user_stack.run(f"foreword ask ferry '{question}' --mode cag --format json")
        assert done.returncode == 0, done.stderr
        blocks.append(json.loads(done.stdout)["foreword"])
    last = blocks[-1]
    assert last["prompt_tokens"] > 1000
    assert last["cached_tokens"] >= 0.95 * last["prompt_tokens"]
    tiers = last["cached_by_tier"]
    assert tiers["gpu"] + tiers["storage"] == last["cached_tokens"]


def test_the_model_makes_sense(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model="smollm2-135m-instruct", messages=HELLO, max_tokens=20, temperature=0
    )
    assert "Paris" in (answer.choices[0].message.content or "")


def test_streams_and_whole_answers_say_the_same(sdk: openai.OpenAI, user_stack: UserStack) -> None:
    fields: dict[str, Any] = {
        "model": "default", "messages": HELLO, "max_tokens": 12, "temperature": 0,
    }  # fmt: skip
    whole = sdk.chat.completions.create(**fields).choices[0].message.content
    chunks = list(
        sdk.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True})
    )
    streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert streamed == whole
    assert chunks[-1].usage is not None
    assert chunks[-1].foreword["ttft_s"] > 0  # type: ignore[attr-defined]

    async def once(stream: bool) -> str:
        async with openai.AsyncOpenAI(base_url=f"{user_stack.url}/v1", api_key="x") as client:
            answer = await client.chat.completions.create(**fields, stream=stream)
            if not stream:
                return answer.choices[0].message.content or ""
            return "".join([c.choices[0].delta.content or "" async for c in answer])

    assert asyncio.run(once(stream=True)) == asyncio.run(once(stream=False)) == whole


def test_an_upload_is_asked_and_cited(sdk: openai.OpenAI, user_stack: UserStack) -> None:
    """Upload, poll, ask by the Responses API, whole and streamed: one answer, one citation."""
    engine = httpx.get(f"{user_stack.url}/readyz", trust_env=False).json()["engine"]
    store = sdk.vector_stores.create(name="harbour")
    text = b"The harbour office in Port Ellery opens at 7:45 and closes at 16:30.\n"
    held = sdk.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("harbour.txt", text)
    )
    assert held.status == "completed", held.last_error
    fields: dict[str, Any] = {
        "model": "default",
        "input": "When does the harbour office in Port Ellery open?",
        "tools": [{"type": "file_search", "vector_store_ids": [store.id]}],
        "max_output_tokens": 40,
        "temperature": 0,
        "extra_body": {"foreword": {"mode": "rag"}},
    }
    whole = sdk.responses.create(**fields, include=["file_search_call.results"])
    assert "7:45" in whole.output_text
    found, message = whole.output
    assert found.results[0].file_id == held.id
    [note] = message.content[0].annotations
    assert (note.file_id, note.filename) == (held.id, "harbour.txt")
    events = list(sdk.responses.create(**fields, stream=True))
    assert events[-1].response.output_text == whole.output_text
    usage = events[-1].response.usage
    # All whole pages, but for the last token, which is always computed.
    pages = (usage.input_tokens - 1) // engine["page_tokens"]
    assert usage.input_tokens_details.cached_tokens == pages * engine["page_tokens"]
    assert usage.input_tokens_details.cached_tokens == events[-1].response.foreword["cached_tokens"]


def test_token_ids_agree_with_the_engine(user_stack: UserStack) -> None:
    ready = httpx.get(f"{user_stack.url}/readyz", trust_env=False).json()
    assert ready["engine"]["token_parity"] is True
    assert ready["engine"]["cache_report"] is True
    assert ready["engine"]["tiers"] is True
    assert ready["engine"]["context_tokens"] == 8192
    assert ready["engine"]["pool_tokens"] >= 8192


def test_a_question_longer_than_the_context_is_refused(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="8192 tokens"):
        sdk.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "ferry " * 9000}]
        )


def test_a_client_that_leaves_stops_the_engines_work(user_stack: UserStack) -> None:
    body = {"model": "default", "messages": HELLO, "max_tokens": 4000, "stream": True}
    body |= {"ignore_eos": True}
    url = f"{user_stack.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=60, trust_env=False) as response:
        chunks = response.iter_bytes()
        next(chunks)
    assert _engine_falls_idle(user_stack)


def test_the_report_agrees_with_the_engines_own_count(user_stack: UserStack) -> None:
    text = user_stack.run("foreword report")
    assert text.returncode == 0, text.stderr
    assert "docqa@2" in text.stdout
    report = httpx.get(f"{user_stack.url}/foreword/report", trust_env=False).json()
    check = report["cross_check"]
    lines = {line["template"]: line for line in check["templates"]}
    assert lines["docqa@2"]["engine"]["gpu"] > 0
    assert lines["docqa@2"]["difference_tokens"] == 0, check
    # Of the client that left, the gateway knows what was re-used, unless it left before the first
    # part of its answer; the engine counted it in any case.
    assert check["unknown_requests"] <= 1
    assert lines["chat@1"]["difference_tokens"] <= 0, check


def test_metrics_count_what_was_reused(user_stack: UserStack) -> None:
    text = httpx.get(f"{user_stack.url}/metrics", trust_env=False).text
    assert 'foreword_cached_tokens_total{template="docqa@2",tenant="local",tier="gpu"}' in text


def _engine_falls_idle(user_stack: UserStack) -> bool:
    facts = json.loads((user_stack.home / "run" / "stack.json").read_text())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        loads = httpx.get(f"{facts['engine_url']}/v1/loads", trust_env=False).json()
        if loads["loads"][0]["num_running_reqs"] == 0:
            return True
        time.sleep(0.2)
    return False
