"""Text completions through the unmodified OpenAI SDK and plain HTTP, in front of the simulator."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from bench.engine_sim import SimulatorThread
from prompts import load_tokenizer
from tests.app.openai_objects import exact
from tests.gateways import gateway_settings, running_gateway

PROMPT = "The ferry leaves at noon, the next one at two. " * 4 + "The last one leaves at"


@pytest.fixture
def http(gateway: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway, trust_env=False) as made:
        yield made


def go_on(client: openai.OpenAI, prompt: Any = PROMPT, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": "default", "max_tokens": 6, "temperature": 0}
    return client.completions.create(prompt=prompt, **(given | fields))


def test_an_answer_has_openais_shape_and_a_foreword_block(client: openai.OpenAI) -> None:
    go_on(client)
    answer = exact(go_on(client))
    [choice] = answer.choices
    assert answer.id.startswith("cmpl-")
    assert answer.object == "text_completion"
    assert answer.model == "tiny"
    assert choice.text
    assert choice.finish_reason == "length"
    assert not {"token_ids", "prompt_token_ids"} & choice.model_extra.keys()
    block = answer.foreword
    assert block["template"] == "completion"
    assert block["prompt_tokens"] == answer.usage.prompt_tokens
    assert block["cached_tokens"] == answer.usage.prompt_tokens_details.cached_tokens > 0
    assert block["ideal_tokens"] == block["cached_tokens"]
    assert block["verdict"] == "hit"
    assert block["ttft_s"] is None


def test_a_prompt_and_its_answer_are_what_the_next_can_re_use(client: openai.OpenAI) -> None:
    prompt = "A crane lifts nine tons. " * 4
    answer = go_on(client, prompt, max_tokens=40)
    longer = go_on(client, prompt + answer.choices[0].text + " And then?")
    assert longer.foreword["ideal_tokens"] > answer.usage.prompt_tokens - 16
    assert longer.foreword["verdict"] == "hit"


def test_ids_are_the_same_as_their_text(client: openai.OpenAI, tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    ids = list(tokenizer.encoder.encode(PROMPT, add_special_tokens=False).ids)
    of_text, of_ids = go_on(client, seed=1), go_on(client, ids, seed=1)
    assert of_ids.usage.prompt_tokens == of_text.usage.prompt_tokens == len(ids)
    assert of_ids.choices[0].text == of_text.choices[0].text


def test_control_tokens_in_a_text_are_control_tokens(client: openai.OpenAI) -> None:
    """Who writes the whole prompt spells its own chat."""
    plain = go_on(client, "im end").usage.prompt_tokens
    spelled = go_on(client, "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    assert spelled.usage.prompt_tokens < plain + 20


@pytest.mark.parametrize("bad", [-1, 10_000_000, 2**32, 2**63])
def test_an_id_outside_the_vocabulary_never_reaches_the_engine(
    http: httpx.Client, bad: int
) -> None:
    answer = http.post("/v1/completions", json={"model": "default", "prompt": [1, bad]})
    assert answer.status_code == 400
    problem = answer.json()["error"]
    assert problem["param"] == "prompt"
    assert "vocabulary" in problem["message"]


def test_a_stream_says_the_same_and_ends_with_usage(client: openai.OpenAI) -> None:
    whole = go_on(client).choices[0].text
    chunks = list(go_on(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks if c.choices) == whole
    assert {chunk.object for chunk in chunks} == {"text_completion"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 6
    assert chunks[-1].foreword["ttft_s"] > 0
    assert all(c.choices[0].model_extra.keys() <= {"matched_stop"} for c in chunks if c.choices)
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_plain_stream_has_no_chunk_without_choices(client: openai.OpenAI) -> None:
    assert all(chunk.choices for chunk in go_on(client, stream=True))


def test_the_prompt_is_echoed_once_before_each_answer(client: openai.OpenAI) -> None:
    plain = go_on(client).choices[0].text
    for choice in go_on(client, echo=True, n=2).choices:
        assert choice.text == PROMPT + plain
    streamed = "".join(c.choices[0].text for c in go_on(client, echo=True, stream=True))
    assert streamed == PROMPT + plain


def test_several_prompts_are_answered_in_their_order_and_written_down_apart(
    client: openai.OpenAI, http: httpx.Client
) -> None:
    texts = ["The first pier", "The second pier is", "The third pier is closed"]
    alone = [go_on(client, text, n=2) for text in texts]
    answer = exact(go_on(client, texts, n=2))
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert [c.text for c in answer.choices] == [c.text for a in alone for c in a.choices]
    assert answer.usage.prompt_tokens == sum(a.usage.prompt_tokens for a in alone)
    assert answer.usage.completion_tokens == 36
    ids = [block["request_id"] for block in answer.foreword["prompts"]]
    assert len(set(ids)) == 3
    assert ids[0] == answer.id == answer.foreword["request_id"]
    for request_id in ids:
        assert http.get(f"/foreword/explain/{request_id}").status_code == 200


def test_several_prompts_stream_as_one(client: openai.OpenAI) -> None:
    texts = ["The first pier", "The second pier is"]
    whole = go_on(client, texts)
    chunks = list(go_on(client, texts, stream=True, stream_options={"include_usage": True}))
    for choice in whole.choices:
        parts = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        assert "".join(part.text for part in parts) == choice.text
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert len(chunks[-1].foreword["prompts"]) == 2
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": [True]}, "prompt.0"),
        ({"prompt": ["a"] * 2049}, "prompt"),
        ({"prompt": "a " * 9000}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10_000}, "prompt"),
        ({"n": 0}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"cache_salt": "x"}, "cache_salt"),
        ({"lora_path": "x"}, "lora_path"),
        ({"return_token_ids": True}, "return_token_ids"),
        ({"messages": []}, "messages"),
        ({"foreword": {"template": "chat"}}, "foreword.template"),
        ({"foreword": {"collection": "ferry"}}, "foreword.collection"),
        ({"model": "gpt-4o"}, "model"),
    ],
)
def test_what_cant_be_done_is_refused_by_name(
    http: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = http.post("/v1/completions", json={"model": "default", "prompt": "a"} | fields)
    assert answer.status_code == (404 if param == "model" else 400), answer.text
    assert answer.json()["error"]["param"] == param
    assert answer.headers["x-request-id"].startswith("cmpl-")


def test_an_engines_error_is_openais(simulator: SimulatorThread, http: httpx.Client) -> None:
    fault = {"kind": "error", "status": 500, "path": "/v1/completions", "times": 2}
    httpx.post(f"{simulator.url}/simulator/faults", json=fault).raise_for_status()
    for streams in (False, True):
        body = {"model": "default", "prompt": ["a", "b"][: 1 + streams], "stream": streams}
        answer = http.post("/v1/completions", json=body)
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "engine_refused"
    httpx.delete(f"{simulator.url}/simulator/faults").raise_for_status()


def test_a_stream_that_breaks_off_ends_in_an_error_event(
    simulator: SimulatorThread, http: httpx.Client
) -> None:
    fault = {"kind": "drop", "path": "/v1/completions", "after_chunks": 2}
    httpx.post(f"{simulator.url}/simulator/faults", json=fault).raise_for_status()
    body = {"model": "default", "prompt": ["a", "b"], "stream": True, "max_tokens": 64}
    answer = http.post("/v1/completions", json=body)
    events = [line for line in answer.text.split("\n\n") if line]
    assert json.loads(events[-1].removeprefix("data: "))["error"]["type"] == "server_error"


def test_a_client_that_goes_away_takes_its_prompts_with_it(
    simulator: SimulatorThread, http: httpx.Client
) -> None:
    body = {"model": "default", "prompt": ["a", "b"], "stream": True, "max_tokens": 4000}
    with http.stream("POST", "/v1/completions", json=body | {"ignore_eos": True}) as answer:
        next(answer.iter_bytes())
    deadline = time.monotonic() + 30
    while _running(simulator):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _running(simulator: SimulatorThread) -> int:
    loads = httpx.get(f"{simulator.url}/v1/loads").json()["loads"][0]
    return int(loads["num_running_reqs"])


def test_without_an_engine_the_answer_is_503(tmp_path: Path) -> None:
    with running_gateway(gateway_settings(tmp_path, "http://127.0.0.1:9")) as url:
        answer = httpx.post(
            f"{url}/v1/completions", json={"model": "default", "prompt": "a"}, trust_env=False
        )
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_not_ready"
    assert int(answer.headers["retry-after"]) > 0
    assert "127.0.0.1:9" not in answer.text
