"""Long texts are encoded as short ones are, and don't stop the other threads meanwhile."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prompts import PromptTokenizer, load_tokenizer
from prompts.encoding import encoded
from tests.tokenizer_folders import write_tokenizer

WORDS = "The ferry leaves at nine and comes back at noon. "


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("encoding") / "tiny"))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 200))
def test_a_texts_length_changes_nothing(tokenizer: PromptTokenizer, times: int) -> None:
    encoder = tokenizer.encoder
    text = WORDS * times
    plain = encoder.encode(text, add_special_tokens=False)
    ours = encoded(encoder, text)
    assert (ours.ids, ours.offsets, ours.word_ids) == (plain.ids, plain.offsets, plain.word_ids)


def test_other_threads_go_on_while_a_long_text_is_encoded(tokenizer: PromptTokenizer) -> None:
    text = WORDS * 40_000
    work = threading.Thread(target=encoded, args=(tokenizer.encoder, text))
    began, turns = time.perf_counter(), 0
    work.start()
    while work.is_alive():
        time.sleep(0.001)
        turns += 1
    took = time.perf_counter() - began
    assert took > 0.1, "too short to tell"
    assert turns > 10
