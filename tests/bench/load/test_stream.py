"""What is read of an answer's stream, however it was cut into pieces."""

from collections.abc import Sequence
from itertools import pairwise

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bench.load.stream import error_text, read_stream, read_whole


def event(**fields: object) -> bytes:
    return b"data: " + orjson.dumps(fields) + b"\n\n"


def said(text: str | None = None, **delta: object) -> bytes:
    return event(choices=[{"delta": {"content": text} | delta, "finish_reason": None}])


END = event(choices=[{"delta": {}, "finish_reason": "stop"}])
USAGE = event(
    choices=[],
    usage={
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 8},
    },
)
DONE = b"data: [DONE]\n\n"
WHOLE = said("", role="assistant") + said("Hé") + said("llo") + END + USAGE + DONE


@given(st.sets(st.integers(1, len(WHOLE) - 1), max_size=40))
def test_however_it_is_cut_the_same_is_read(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(WHOLE)]
    pieces = [(float(at), WHOLE[start:end]) for at, (start, end) in enumerate(pairwise(places))]
    streamed = read_stream(pieces)
    assert streamed.text == "Héllo"
    assert len(streamed.times) == 2
    assert streamed.times == sorted(streamed.times)
    assert (streamed.prompt_tokens, streamed.output_tokens, streamed.cached_tokens) == (9, 2, 8)
    assert streamed.finished
    assert streamed.error is None


def at_times(*events: bytes) -> Sequence[tuple[float, bytes]]:
    return [(float(at), piece) for at, piece in enumerate(events)]


def test_a_role_and_usage_are_no_first_token() -> None:
    streamed = read_stream(at_times(said("", role="assistant"), USAGE, said("x"), END))
    assert streamed.times == [2.0]


def test_reasoning_and_calls_are_tokens_but_not_the_answers_text() -> None:
    call = {"index": 0, "function": {"name": "f"}}
    streamed = read_stream(
        at_times(said(reasoning_content="hm"), said(tool_calls=[call]), said("x"), END)
    )
    assert streamed.times == [0.0, 1.0, 2.0]
    assert streamed.text == "x"


def test_without_a_cache_report_cached_tokens_are_unknown() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}
    streamed = read_stream(at_times(said("x"), END, event(choices=[], usage=usage)))
    assert streamed.cached_tokens is None
    assert streamed.by_tier is None


def test_sglangs_tiers_get_our_names() -> None:
    details = {"device": 16, "host": 0, "storage": 32, "storage_backend": "LMCache"}
    streamed = read_stream(at_times(said("x"), event(sglext={"cached_tokens_details": details})))
    assert streamed.by_tier == {"gpu": 16, "ram": 0, "storage": 32}


def test_forewords_own_block_tells_ideal_and_verdict() -> None:
    block = {
        "ideal_tokens": 64,
        "cached_tokens": 48,
        "verdict": "evicted",
        "cached_by_tier": {"gpu": 48, "ram": None},
    }
    streamed = read_stream(at_times(said("x"), USAGE, event(choices=[], foreword=block), DONE))
    assert (streamed.ideal_tokens, streamed.cached_tokens) == (64, 48)
    assert streamed.verdict == "evicted"
    assert streamed.by_tier == {"gpu": 48, "ram": None}


def test_an_error_within_a_stream_is_one() -> None:
    streamed = read_stream(at_times(said("x"), event(error={"message": "the engine went"})))
    assert streamed.error == "the engine went"
    assert not streamed.finished


def test_a_chunk_that_is_no_json_is_an_error() -> None:
    assert read_stream(at_times(b"data: {\n\n")).error is not None


def test_an_answer_that_was_not_streamed_came_at_its_end() -> None:
    body = orjson.dumps({"choices": [{"message": {"content": "all"}, "finish_reason": "stop"}]})
    streamed = read_whole([(1.0, body[:9]), (2.0, body[9:])])
    assert (streamed.text, streamed.times, streamed.finished) == ("all", [2.0], True)
    assert read_whole([(1.0, b"<html>")]).error is not None


def test_errors_are_told_shortly() -> None:
    assert error_text(b'{"error": {"message": "no"}}') == "no"
    assert error_text(b'{"object": "error", "message": "no"}') == "no"
    assert error_text(b"<html>" * 99) == ("<html>" * 99)[:200]
