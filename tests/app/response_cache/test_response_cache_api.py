"""The response cache over HTTP, by the unmodified OpenAI SDK: given again, skipped, let go of."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

from app.settings import ResponseCacheSettings
from bench.engine_sim import SimulatorThread
from tests.gateways import gateway_settings, running_gateway, wait_until_ready

HEADER = "x-foreword-response-cache"


@pytest.fixture(scope="module")
def keeps(simulator: SimulatorThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = gateway_settings(tmp_path_factory.mktemp("keeps"), simulator.url)
    on = {"response_cache": ResponseCacheSettings(enabled=True)}
    with running_gateway(settings.model_copy(update=on)) as url:
        wait_until_ready(url)
        yield url


@pytest.fixture
def client(keeps: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{keeps}/v1", api_key="unused", max_retries=0) as made:
        made.delete("/../foreword/response-cache", cast_to=object)
        yield made


def kept(url: str) -> int:
    found = httpx.get(f"{url}/foreword/response-cache", trust_env=False).json()
    return int(found["answers"])


def wait_until_kept(url: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while kept(url) != count:
        assert time.monotonic() < deadline, f"{kept(url)} answers are kept"
        time.sleep(0.02)


def chat(client: openai.OpenAI, text: str, **more: Any) -> tuple[ChatCompletion, httpx.Headers]:
    given: dict[str, Any] = {"model": "default", "temperature": 0, "max_tokens": 12, **more}
    messages = [{"role": "user", "content": text}]
    raw = client.chat.completions.with_raw_response.create(messages=messages, **given)
    return raw.parse(), httpx.Headers(dict(raw.headers))


def metric(url: str, line: str) -> float:
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    found = [each for each in text.splitlines() if each.startswith(line + " ")]
    return float(found[0].split()[-1]) if found else 0.0


def test_the_same_question_is_answered_again_without_an_engine(
    client: openai.OpenAI, keeps: str
) -> None:
    requests = 'foreword_requests_total{template="chat@1",tenant="local",status="ok"}'
    first, headers = chat(client, "What is a ferry?")
    assert HEADER not in headers
    wait_until_kept(keeps, 1)
    before = metric(keeps, requests)
    again, headers = chat(client, "What is a ferry?")
    assert (headers[HEADER], headers["age"].isdigit()) == ("hit", True)
    assert headers["x-request-id"] == again.id != first.id
    assert again.choices[0].message.content == first.choices[0].message.content
    assert again.choices[0].finish_reason == first.choices[0].finish_reason
    assert again.usage is not None
    assert first.usage is not None
    assert again.usage.total_tokens == first.usage.total_tokens
    assert again.usage.prompt_tokens_details is None, "nothing was re-used for it"
    block: dict[str, Any] = again.foreword  # type: ignore[attr-defined]
    assert block["response_cache"]["request_id"] == first.id
    assert (block["cached_tokens"], block["replica"], block["verdict"]) == (None, None, None)
    assert metric(keeps, requests) == before, "it is no request of the ledger's"
    assert metric(keeps, 'foreword_response_cache_requests_total{by="given"}') >= 1


def test_the_report_tells_it_apart(client: openai.OpenAI, keeps: str) -> None:
    chat(client, "What is a mole?")
    wait_until_kept(keeps, 1)
    before = httpx.get(f"{keeps}/foreword/report", trust_env=False).json()
    for _ in range(3):
        assert chat(client, "What is a mole?")[1][HEADER] == "hit"

    def is_counted() -> bool:
        made = httpx.get(f"{keeps}/foreword/report", trust_env=False).json()
        given = made["response_cache"]["answers"] - before["response_cache"]["answers"]
        assert made["total"] == before["total"]
        return bool(given == 3)

    deadline = time.monotonic() + 60
    while not is_counted():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    text = httpx.get(f"{keeps}/foreword/report?format=text", trust_env=False).text
    assert "got an answer that was kept" in " ".join(text.split())


def test_a_stream_of_it_says_the_same_in_either_api(client: openai.OpenAI, keeps: str) -> None:
    first, _ = chat(client, "What is a pier?")
    wait_until_kept(keeps, 1)
    stream = client.chat.completions.create(
        model="default",
        temperature=0,
        max_tokens=12,
        messages=[{"role": "user", "content": "What is a pier?"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == first.choices[0].message.content
    assert chunks[-1].usage == first.usage.model_copy(update={"prompt_tokens_details": None})  # type: ignore[union-attr]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    asked: dict[str, Any] = {
        "model": "default", "input": "What is a pier?", "temperature": 0, "max_output_tokens": 12,
    }  # fmt: skip
    raw = client.responses.with_raw_response.create(**asked)
    assert raw.headers[HEADER] == "hit"
    whole = raw.parse()
    assert whole.output_text == said
    assert client.responses.retrieve(whole.id).output_text == said, "it is stored like any other"
    *_, last = client.responses.create(**asked, stream=True)
    assert last.type in ("response.completed", "response.incomplete")
    assert last.response.output_text == said  # type: ignore[union-attr]
    assert last.response.foreword["response_cache"]["request_id"] == first.id  # type: ignore[union-attr]


def test_what_was_streamed_is_given_whole(client: openai.OpenAI, keeps: str) -> None:
    stream = client.chat.completions.create(
        model="default",
        temperature=0,
        max_tokens=12,
        messages=[{"role": "user", "content": "What is a gull?"}],
        stream=True,
    )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    wait_until_kept(keeps, 1)
    again, headers = chat(client, "What is a gull?")
    assert headers[HEADER] == "hit"
    assert again.choices[0].message.content == said


@pytest.mark.parametrize(
    "change",
    [{"temperature": 0.5}, {"n": 2}, {"max_tokens": 13}, {"seed": 7}, {"stop": ["."]}],
)
def test_another_request_is_answered_anew(
    client: openai.OpenAI, keeps: str, change: dict[str, Any]
) -> None:
    chat(client, "What is a quay?")
    wait_until_kept(keeps, 1)
    _, headers = chat(client, "What is a quay?", **change)
    assert HEADER not in headers


def test_a_request_may_want_a_new_answer_and_have_none_kept(
    client: openai.OpenAI, keeps: str
) -> None:
    _, headers = chat(client, "What is a tide?", extra_headers={"cache-control": "no-store"})
    assert HEADER not in headers
    first, _ = chat(client, "What is a tide?")
    wait_until_kept(keeps, 1)
    assert metric(keeps, 'foreword_response_cache_requests_total{by="left_out"}') >= 1
    new, headers = chat(client, "What is a tide?", extra_headers={"cache-control": "no-cache"})
    assert HEADER not in headers
    deadline = time.monotonic() + 60
    while (again := chat(client, "What is a tide?")[0]).foreword["response_cache"][  # type: ignore[attr-defined]
        "request_id"
    ] == first.id:
        assert time.monotonic() < deadline
    assert again.foreword["response_cache"]["request_id"] == new.id  # type: ignore[attr-defined]


def test_a_tenants_answers_can_be_let_go_of(client: openai.OpenAI, keeps: str) -> None:
    chat(client, "What is a buoy?")
    wait_until_kept(keeps, 1)
    gone = httpx.delete(f"{keeps}/foreword/response-cache", trust_env=False).json()
    assert gone == {"object": "foreword.response_cache", "tenant": "local", "deleted": 1}
    _, headers = chat(client, "What is a buoy?")
    assert HEADER not in headers


def test_a_changed_collection_is_answered_anew(client: openai.OpenAI, keeps: str) -> None:
    def add(name: str, text: str) -> None:
        client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=(name, text.encode()), poll_interval_ms=50
        )

    store = client.vector_stores.create(name="harbour")
    add("a.txt", "Pier 3 is closed in winter.")
    asks = {"extra_body": {"foreword": {"collection": store.id, "mode": "rag"}}}
    chat(client, "Which pier is closed?", **asks)
    wait_until_kept(keeps, 1)
    again, headers = chat(client, "Which pier is closed?", **asks)
    assert headers[HEADER] == "hit"
    assert again.foreword["collection"] == "harbour"  # type: ignore[attr-defined]
    add("b.txt", "Pier 3 is open in winter, pier 4 is closed.")
    _, headers = chat(client, "Which pier is closed?", **asks)
    assert HEADER not in headers


def test_turns_of_conversations_are_never_given_again(client: openai.OpenAI, keeps: str) -> None:
    talk = client.conversations.create()
    for _ in range(2):
        raw = client.responses.with_raw_response.create(
            model="default",
            input="Why?",
            temperature=0,
            max_output_tokens=16,
            conversation=talk.id,
        )
        assert HEADER not in raw.headers
    assert kept(keeps) == 0


def test_it_is_off_by_default(gateway: str) -> None:
    answers = []
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="unused") as plain:
        for _ in range(2):
            answers.append(chat(plain, "What is a hull?"))
    assert all(HEADER not in headers for _, headers in answers)
    found = httpx.get(f"{gateway}/foreword/response-cache", trust_env=False).json()
    assert (found["enabled"], found["answers"]) == (False, 0)
