"""What an answer is kept under: equal for the very same request, another one for any change."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine import EngineInfo
from app.prepared import Prepared, Source
from app.response_cache.keys import CacheControl, cache_control, cache_key, has_one_answer
from app.response_cache.records import KeptAnswer, kept_usage
from app.schemas import ChatCompletionRequest
from prompts import Prompt

SECRET = bytes(range(32))
ENGINE = EngineInfo(
    model_path="/models/m",
    tokenizer_path="/models/m",
    served_name="m",
    context_tokens=4096,
    page_tokens=64,
    pool_tokens=None,
    cache_report=True,
    tiers=False,
    version="1",
)


def prepared(**change: Any) -> Prepared:
    usual: dict[str, Any] = {
        "request_id": "chatcmpl-1",
        "tenant": "a",
        "salt": "s",
        "model": "m",
        "template": "chat@1",
        "body": {"temperature": 0, "max_tokens": 16, "rid": "chatcmpl-1", "stream": False},
        "labels": {},
        "rendered": Prompt(template="chat@1", segments=()),
    }
    return Prepared(**usual | change)


def request(**change: Any) -> ChatCompletionRequest:
    usual = {"model": "m", "messages": [{"role": "user", "content": "Why?"}], "temperature": 0}
    return ChatCompletionRequest.model_validate(usual | change)


def test_the_same_request_has_the_same_key_whatever_it_is_called_and_however_it_is_spelled() -> (
    None
):
    streamed = {"max_tokens": 16, "stream": True, "rid": "chatcmpl-2", "temperature": 0.0}
    one = cache_key(SECRET, prepared(), ENGINE)
    assert cache_key(SECRET, prepared(request_id="chatcmpl-2", body=streamed), ENGINE) == one
    assert len(one) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "b"},
        {"salt": "t"},
        {"model": "n"},
        {"adapter": "x"},
        {"template": "chat@2"},
        {"collection": "c"},
        {"body": {"temperature": 0, "max_tokens": 17}},
        {"body": {"temperature": 0, "max_tokens": 16, "stop": ["."]}},
        {"body": {"temperature": 0, "max_tokens": 16, "response_format": {"type": "json_object"}}},
        {"sources": (Source(document="d", text="t", file_id="file-1", chunk_id="1"),)},
    ],
)
def test_any_change_asks_under_another_key(change: dict[str, Any]) -> None:
    assert cache_key(SECRET, prepared(**change), ENGINE) != cache_key(SECRET, prepared(), ENGINE)


@pytest.mark.parametrize(
    "engine",
    [
        replace(ENGINE, model_path="/models/n"),
        replace(ENGINE, version="2"),
        replace(ENGINE, settings={"weight_version": "7"}),
        replace(ENGINE, settings={"quantization": "fp8"}),
    ],
)
def test_another_engine_or_secret_does_too(engine: EngineInfo) -> None:
    one = cache_key(SECRET, prepared(), ENGINE)
    assert cache_key(SECRET, prepared(), engine) != one
    assert cache_key(SECRET[::-1], prepared(), ENGINE) != one


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.1},
        {"temperature": None},
        {"n": 2},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"logprobs": True},
        {"foreword": {"diagnostics": True}},
        {"stream": True, "stream_options": {"continuous_usage_stats": True}},
        {
            "messages": [
                {"role": "user", "content": "Why?"},
                {"role": "tool", "content": "because", "tool_call_id": "1"},
            ]
        },
    ],
)
def test_what_may_have_another_answer_is_never_kept(change: dict[str, Any]) -> None:
    assert not has_one_answer(request(**change))
    assert has_one_answer(request())


@pytest.mark.parametrize(
    ("header", "control"),
    [
        (None, CacheControl.USUAL),
        ("max-age=0", CacheControl.USUAL),
        ("no-cache", CacheControl.NO_CACHE),
        ("No-Cache , NO-STORE", CacheControl.NO_STORE),
    ],
)
def test_a_header_says_whether_to_look_and_to_keep(
    header: str | None, control: CacheControl
) -> None:
    assert cache_control(header) is control


answers = st.builds(
    KeptAnswer,
    request_id=st.just("chatcmpl-1"),
    made_at=st.just(5.0),
    content=st.text(),
    reasoning=st.none() | st.text(min_size=1),
    finish_reason=st.sampled_from(["stop", "length"]),
    usage=st.just({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
)


@given(answers)
def test_what_is_kept_comes_back_and_a_stream_of_it_says_the_same(answer: KeptAnswer) -> None:
    assert KeptAnswer.unpacked(answer.packed(), request_id="chatcmpl-1", made_at=5.0) == answer
    deltas = [part["choices"][0] for part in answer.parts()]
    assert "".join(each["delta"].get("content") or "" for each in deltas) == answer.content
    told = "".join(each["delta"].get("reasoning_content") or "" for each in deltas)
    assert (told or None) == answer.reasoning
    assert [each["finish_reason"] for each in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1]["finish_reason"] == answer.finish_reason


def test_usage_is_kept_without_what_was_re_used() -> None:
    reported = {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert kept_usage(reported) == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert kept_usage({"prompt_tokens": 3}) is None
    assert kept_usage(None) is None
