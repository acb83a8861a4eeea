"""Reads that are passed on in one go say what their chunks would say one by one."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hot.plain_chunks import PlainChunks
from app.hot.usual_parts import UsualParts
from tests.app.hot.test_usual_parts import USAGE, chunk, met

usages = st.sampled_from([{}, {"usage": None}, {"usage": USAGE}])
contents = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
others = st.sampled_from(
    [
        chunk({"content": None}),
        chunk({"content": "a", "tool_calls": []}),
        chunk({"reasoning_content": "b"}),
        chunk({"content": "c"}, usage=3),
        chunk({"content": "d"}) | {"id": "another"},
    ]
)


def learnt() -> UsualParts:
    """A stream of which a chunk with text has been passed on."""
    parts = met()
    assert parts.passed_on(orjson.dumps(chunk({"content": "Hi"}))) is not None
    return parts


def framed(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


def sent(parts: list[dict[str, Any]]) -> bytes:
    return b"".join(framed(b"data: " + orjson.dumps(part) + b"\n\n") for part in parts)


@given(
    said=st.lists(st.tuples(contents, usages) | others, min_size=1, max_size=4),
)
def test_a_read_is_passed_on_as_its_chunks_are_or_not_at_all(said: list[Any]) -> None:
    parts = [
        chunk({"content": one[0]}, **one[1]) if isinstance(one, tuple) else one for one in said
    ]
    fast, slow = learnt(), learnt()
    passed = PlainChunks(fast).passed_on(sent(parts))
    if passed is None:
        assert fast.usage() is None
        return
    each = [slow.passed_on(orjson.dumps(part)) for part in parts]
    assert all(each)
    events = [one[0] for one in each if one is not None]
    texts = [part["choices"][0]["delta"]["content"] for part in parts]
    assert passed == (b"".join(map(framed, events)), sum(map(len, events)), texts)
    assert fast.usage() == slow.usage()


def test_plain_text_is_passed_on() -> None:
    parts = [chunk({"content": word}, usage=USAGE) for word in ("Wo", "Öl ist", "東京")]
    passed = PlainChunks(learnt()).passed_on(sent(parts))
    assert passed is not None
    assert passed[2] == ["Wo", "Öl ist", "東京"]


PLAIN = sent([chunk({"content": "a"})])


@pytest.mark.parametrize(
    "data",
    [
        PLAIN[:-1], PLAIN[:-2], PLAIN[1:], PLAIN + b"5", PLAIN + b"0\r\n\r\n", b"\r\n" + PLAIN,
        b"+" + PLAIN, b"0_" + PLAIN, b"0x" + PLAIN, b" " + PLAIN, b"-" + PLAIN, b"g" + PLAIN,
        PLAIN.replace(b"\r\n", b";x=1\r\n", 1), PLAIN.replace(b"\r\n", b"\n"),
        sent([chunk({"content": "a\\n"})]), PLAIN.replace(b'"a"', b'"\x01"'),
        PLAIN.replace(b'"a"', b'"\xff"'), framed(b"data: [DONE]\n\n"), b"0\r\n\r\n",
        framed(PLAIN.split(b"\r\n")[1] * 2),
    ],
)  # fmt: skip
def test_anything_else_is_left_to_others(data: bytes) -> None:
    assert PlainChunks(learnt()).passed_on(data) is None


def test_nothing_is_passed_on_before_a_text_was() -> None:
    assert PlainChunks(met()).passed_on(PLAIN) is None
