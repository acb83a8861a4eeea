"""Files of requests: what is taken, and one sentence for each line that isn't."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.batches.lines import MAX_PROBLEMS, BatchLine, LineProblem, read_lines
from app.batches.ordering import prefix_order
from app.batches.sharing import sharing_key
from app.settings import WireSettings
from tests.app.batches.requests import CHAT, chat_line, line


def read(
    data: bytes, *, max_lines: int = 1000, limits: WireSettings | None = None
) -> tuple[list[BatchLine], list[LineProblem]]:
    return read_lines(data, CHAT, max_lines=max_lines, limits=limits or WireSettings())


def test_lines_are_taken_as_they_stand() -> None:
    data = chat_line("a", "x") + b"\r\n \n" + chat_line("b", "y").rstrip()
    lines, problems = read(data)
    assert problems == []
    assert [(each.number, each.custom_id) for each in lines] == [(0, "a"), (1, "b")]
    assert orjson.loads(lines[1].body)["messages"][1]["content"] == "y"


BODY = {"model": "default", "messages": []}
GOOD = {"custom_id": "a", "method": "POST", "url": CHAT, "body": BODY}


@pytest.mark.parametrize(
    ("changed", "code", "param"),
    [
        ({"custom_id": None}, "invalid_line", "custom_id"),
        ({"custom_id": ""}, "invalid_line", "custom_id"),
        ({"custom_id": 7}, "invalid_line", "custom_id"),
        ({"custom_id": "x" * 513}, "invalid_line", "custom_id"),
        ({"custom_id": "\0"}, "invalid_line", "custom_id"),
        ({"method": "GET"}, "invalid_method", "method"),
        ({"url": "/v1/responses"}, "mismatched_url", "url"),
        ({"body": []}, "invalid_line", "body"),
        ({"body": {"messages": []}}, "invalid_line", "body.model"),
        ({"body": {**BODY, "stream": True}}, "invalid_line", "body.stream"),
        ({"body": {**BODY, "background": True}}, "invalid_line", "body.background"),
        ({"colour": 1}, "invalid_line", "colour"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    changed: dict[str, object], code: str, param: str
) -> None:
    data = chat_line("first", "x") + orjson.dumps({**GOOD, **changed}) + b"\n"
    lines, problems = read(data)
    assert [each.custom_id for each in lines] == ["first"]
    assert [(each.code, each.line, each.param) for each in problems] == [(code, 2, param)]
    assert "\n" not in problems[0].message


@pytest.mark.parametrize(
    "raw", [b"nonsense", b"[1]", b"3", b'{"a": NaN}', b"\xff", b"\xef\xbb\xbf{}"]
)
def test_what_is_no_json_object_is_told(raw: bytes) -> None:
    _, problems = read(raw)
    assert [(each.code, each.line) for each in problems] == [("invalid_json_line", 1)]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (line("", CHAT, BODY), "custom_id: is empty"),
        (orjson.dumps({**GOOD, "custom_id": None}), "custom_id: is missing"),
        (orjson.dumps({"method": "POST", "url": CHAT, "body": BODY}), "custom_id: is missing"),
        (line("x" * 513, CHAT, BODY), "custom_id: has 513 characters; it may have 512"),
        ('{"custom_id": "café"}'.encode("latin-1"), "the line is not UTF-8: the byte 0xe9 at"),
    ],
)
def test_the_sentence_says_what_to_mend(raw: bytes, says: str) -> None:
    [problem] = read(raw)[1]
    assert problem.message.startswith(says)


def test_turns_of_a_conversation_stay_in_the_files_order() -> None:
    """Whatever their instructions, and however it is named."""
    bodies = [
        {"model": "default", "input": "z", "conversation": "conv_1"},
        {"model": "default", "input": "b", "conversation": "conv_2"},
        {"model": "default", "input": "y", "conversation": {"id": "conv_1"}, "instructions": "A"},
        {"model": "m", "input": "a", "conversation": "conv_1"},
    ]
    data = b"".join(line(f"{n}", "/v1/responses", body) for n, body in enumerate(bodies))
    lines, _ = read_lines(data, "/v1/responses", max_lines=9, limits=WireSettings())
    order = [place.number for place in prefix_order([each.key for each in lines])]
    assert [number for number in order if number != 1] == [0, 2, 3]


def test_an_empty_file_has_no_requests() -> None:
    assert [each.code for each in read(b"\n \n")[1]] == ["empty_file"]


def test_too_many_too_large_too_deep() -> None:
    data = b"".join(chat_line(f"{n}", "x") for n in range(4))
    assert [(p.code, p.line) for p in read(data, max_lines=3)[1]] == [("too_many_lines", 4)]
    assert read(data, max_lines=4)[1] == []
    small = WireSettings(json_bytes=64)
    assert "larger than 64 bytes" in read(data, limits=small)[1][0].message
    deep = line("a", CHAT, {"model": "default", "x": orjson.loads("[" * 100 + "]" * 100)})
    assert "in each other" in read(deep)[1][0].message


def test_nobody_is_told_ten_thousand_times() -> None:
    assert len(read(b"x\n" * 10_000)[1]) == MAX_PROBLEMS


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    lines, problems = read(data)
    assert lines or problems


@pytest.mark.parametrize(
    ("endpoint", "one", "other"),
    [
        (CHAT, {"messages": [{"role": "system", "content": "S"}]}, {"messages": []}),
        (
            "/v1/responses",
            {"instructions": "S", "input": "a"},
            {"instructions": "S", "input": "ab"},
        ),
        ("/v1/completions", {"prompt": "Once"}, {"prompt": "Once upon"}),
        ("/v1/completions", {"prompt": [1, 2]}, {"prompt": [1, 2, 3]}),
    ],
)
def test_a_longer_prompts_key_goes_on(endpoint: str, one: object, other: object) -> None:
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    keys = sorted([sharing_key(endpoint, one), sharing_key(endpoint, other)], key=len)
    assert keys[1].startswith(keys[0])
    assert keys[0] != keys[1]


def test_field_order_is_no_difference_and_models_are_one() -> None:
    a = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    b = {"messages": [{"content": "x", "role": "user"}], "model": "m"}
    assert sharing_key(CHAT, a) == sharing_key(CHAT, b)
    assert sharing_key(CHAT, a) != sharing_key(CHAT, {**a, "model": "n"})
