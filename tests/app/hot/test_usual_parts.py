"""Chunks that are passed on say what they would if they were taken apart."""

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hot.usual_parts import UsualParts

OURS = {"id": "chatcmpl-1", "model": "docs"}
HEAD = {"id": "rid", "object": "chat.completion.chunk", "created": 7, "model": "org/m"}

texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
deltas = st.fixed_dictionaries(
    {}, optional={"role": st.just("assistant"), "content": texts, "reasoning_content": texts}
)


def chunk(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    ends = {"logprobs": None, "finish_reason": None, "matched_stop": None}
    return {**HEAD, "choices": [{"index": 0, "delta": delta, **ends}], **more}


def met() -> UsualParts:
    parts = UsualParts(request_id=OURS["id"], model=OURS["model"])
    first = orjson.dumps(chunk({"role": "assistant", "content": ""}))
    assert parts.passed_on(first) is None  # nothing is known of the stream before
    parts.met(first)
    return parts


USAGE = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}, "reasoning_tokens": 0}


@given(delta=deltas, usage=st.sampled_from([{}, {"usage": None}, {"usage": USAGE}]), ascii=...)
def test_a_usual_chunk_is_passed_on_with_our_names(
    delta: dict[str, Any], usage: dict[str, Any], ascii: bool
) -> None:
    data = json.dumps(chunk(delta, **usage), separators=(",", ":"), ensure_ascii=ascii).encode()
    parts = met()
    passed = parts.passed_on(data)
    assert passed is not None
    event, said = passed
    assert said == delta
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert event.count(b"\n") == 2
    assert json.loads(event[6:]) == chunk(delta) | OURS
    assert parts.usage() == usage.get("usage")
    assert parts.usage() is None  # it was told


@given(
    contents=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=2),
    rest=st.sampled_from([{}, {"role": None}, {"reasoning_content": None}]),
    usage=st.sampled_from([{}, {"usage": None}, {"usage": USAGE}]),
)
def test_chunks_that_differ_in_their_text_alone_say_theirs(
    contents: list[str], rest: dict[str, Any], usage: dict[str, Any]
) -> None:
    parts = met()
    for content in contents:
        told = chunk(rest | {"content": content}, **usage)
        passed = parts.passed_on(orjson.dumps(told))
        assert passed is not None
        event, said = passed
        assert said["content"] == content
        assert not any(value for name, value in said.items() if name != "content")
        del told["choices"][0]["delta"]
        heard = json.loads(event[6:])
        assert heard["choices"][0].pop("delta") == rest | {"content": content}
        assert heard == {name: told[name] for name in told if name != "usage"} | OURS
        assert parts.usage() == usage.get("usage")


UNUSUAL = {
    "the last": {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    "a second answer": {"choices": [{"index": 1, "delta": {"content": "x"}}]},
    "usage of no shape": chunk({"content": "x"}, usage=[1]),
    "token ids": chunk({"content": "x"}, sglext={"output_ids": [[1]]}),
    "a tool call": chunk({"content": None, "tool_calls": [{"index": 0}]}),
    "no choice": {"choices": []},
    "another stream's": chunk({"content": "x"}) | {"id": "other"},
    "an error": {"error": {"message": "x"}},
}


def used() -> UsualParts:
    """As `met`, after a chunk that says plain text."""
    parts = met()
    assert parts.passed_on(orjson.dumps(chunk({"content": "a"}))) is not None
    return parts


both = pytest.mark.parametrize("parts", [met, used], ids=["met", "used"])


@both
@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_chunk_is_left_to_others(name: str, parts: Callable[[], UsualParts]) -> None:
    assert parts().passed_on(orjson.dumps(HEAD | UNUSUAL[name])) is None


@pytest.mark.parametrize(
    "delta",
    [
        b'{"content":"\\x"}',
        b'{"content":"x",}',
        b'{"content":"a\nb"}',
        b'{"content":"\xff"}',
        b'{"content":"x"',
        b'{"content":"\\ud83d"}',
        b'{"content":"a\0b"}',
        b'{"content":"a"b"}',
    ],
)
@both
def test_what_is_no_json_is_never_passed_on(delta: bytes, parts: Callable[[], UsualParts]) -> None:
    whole = orjson.dumps(chunk({}))
    assert parts().passed_on(whole.replace(b'"delta":{}', b'"delta":' + delta)) is None


def test_a_chunk_with_a_head_of_another_shape_teaches_nothing() -> None:
    parts = UsualParts(request_id="r", model="m")
    for data in (b'{"choices":[', b"[]", b'{"id":"x","choices":[]}', b'{"id":x,"choices":[]}'):
        parts.met(data)
        assert parts.passed_on(data) is None
