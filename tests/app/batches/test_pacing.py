"""How long a batch leaves the engine to others."""

import orjson
import pytest

from app.batches.pacing import computed_tokens, rest_s
from app.batches.records import WINDOW_S, LineAnswer


def answer(usage: object, status: int = 200) -> LineAnswer:
    return LineAnswer(status=status, request_id="r", body=orjson.dumps({"usage": usage}))


def test_long_prompts_take_their_share_of_the_time_and_no_more() -> None:
    assert rest_s(0.7, share=0.01, left=20, time_left_s=WINDOW_S) == pytest.approx(70)


def test_half_of_the_time_that_is_left_does_for_all() -> None:
    assert rest_s(10, share=0.005, left=1000, time_left_s=4000) == 2
    assert rest_s(10, share=0.005, left=0, time_left_s=4000) == 2000
    assert rest_s(10, share=0.005, left=5, time_left_s=-1) == 0


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, 5),
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}}, 9),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}, None),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, None),
        (None, None),
    ],
)
def test_what_was_computed_is_told_by_the_answer(usage: object, tokens: int | None) -> None:
    assert computed_tokens(answer(usage)) == tokens
    assert computed_tokens(answer(usage, status=400)) is None
