"""Texts with passages in common get the ids they get in one go, for five real tokenizers."""

from array import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prompts.token_runs import RunEncoder
from tests.prompts.test_token_seams import part_texts
from tests.tokenizer_packages import MODELS, RealTokenizers

WORDS = "The ferry leaves at nine and comes back at noon, every day but one."

lines = st.one_of(part_texts, st.just(WORDS), st.sampled_from([f"{WORDS}\n", f"{WORDS}  \r\n"]))
# Long enough to be cut, of lines that come again in other texts.
long_texts = st.lists(lines, min_size=14, max_size=24).map("".join)


@pytest.fixture(scope="module", params=MODELS)
def runs(request: pytest.FixtureRequest, real_tokenizers: RealTokenizers) -> RunEncoder:
    return real_tokenizers.load(str(request.param)).runs


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)
@given(text=long_texts)
def test_a_long_text_is_encoded_as_one(text: str, runs: RunEncoder) -> None:
    assert ids(runs, text) == whole(runs, text)
    changed = f"Now: 12:45\n{text}"
    assert ids(runs, changed) == whole(runs, changed)


def test_only_what_differs_is_encoded_again(runs: RunEncoder) -> None:
    """A new first line costs few new runs."""
    text = "".join([f"{WORDS} And again, number {number}.\n" for number in range(80)])
    ids(runs, text)
    before = runs.held_bytes
    changed = f"Current time: 12:45\n{text}"
    assert ids(runs, changed) == whole(runs, changed)
    assert runs.held_bytes - before < len(text) / 8


def test_it_keeps_no_more_than_it_may(real_tokenizers: RealTokenizers) -> None:
    encoder = real_tokenizers.load("smollm2").encoder
    small = RunEncoder(encoder, capacity_bytes=4_000)
    for number in range(50):
        text = f"{number}: {WORDS}" * 20
        assert ids(small, text) == whole(small, text)
        assert small.held_bytes <= 4_000


def ids(runs: RunEncoder, text: str) -> list[int]:
    """The ids of a text, unpacked."""
    packed = array("I")
    packed.frombytes(runs.encode(text))
    return list(packed)


def whole(runs: RunEncoder, text: str) -> list[int]:
    """The ids of a text, encoded in one go."""
    return list(runs._encoder.encode(text, add_special_tokens=False).ids)
