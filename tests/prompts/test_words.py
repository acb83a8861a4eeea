"""Word by word, the ids and places are those of the whole text, for every real tokenizer."""

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from prompts.words import WordEncoder
from tests.prompts.test_token_seams import fragments
from tests.tokenizer_folders import write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

# White space of all kinds, what joins the letter before it, and what is printable but not ASCII.
_NEAR_CUTS = (
    " ", " ", " ", "a", "'s", "B", "12", ".", "\n", "\r", "\t", "\0", "\x1c", "\x7f", "\x85",
    " \u0301", "\u3000", "\u180e", "\u200b", "é", "!", "</", "<|fim_pad|>", "<|im_end|>",
)  # fmt: skip
texts = st.one_of(
    st.lists(fragments, max_size=30).map("".join),
    st.lists(st.sampled_from(_NEAR_CUTS), max_size=40).map("".join),
)


@pytest.fixture(scope="module", params=MODELS)
def encoder(request: pytest.FixtureRequest, real_tokenizers: RealTokenizers) -> WordEncoder:
    return WordEncoder(real_tokenizers.load(request.param).encoder)


@settings(max_examples=60, deadline=None)
@given(text=texts)
def test_words_are_encoded_as_the_whole_text_is(text: str, encoder: WordEncoder) -> None:
    expected = encoder._encoder.encode(text, add_special_tokens=False)
    for _ in range(2):  # and from what was kept
        made = encoder.encode(text, 7)
        assert made.ids == expected.ids
        assert list(made.starts) == [7 + first for first, _ in expected.offsets]


def test_only_a_tokenizer_that_splits_at_spaces_is_used_by_words(
    real_tokenizers: RealTokenizers,
) -> None:
    known = {model: WordEncoder(real_tokenizers.load(model).encoder).knows for model in MODELS}
    assert known == {model: model != "gemma3" for model in MODELS}


def _small(tmp_path: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(write_tokenizer(tmp_path) / "tokenizer.json"))


def test_an_unknown_pattern_is_not_trusted(tmp_path: Path) -> None:
    encoder = _small(tmp_path)
    assert WordEncoder(encoder).knows
    pattern = tokenizers.Regex(r"\w+ \w+|.")
    encoder.pre_tokenizer = pre_tokenizers.Split(pattern, behavior="isolated")
    assert not WordEncoder(encoder).knows


@pytest.mark.parametrize("options", [{"lstrip": True}, {"rstrip": True}, {}])
def test_an_added_token_may_not_reach_over_a_space(
    tmp_path: Path, options: dict[str, bool]
) -> None:
    encoder = _small(tmp_path)
    content = "<two>" if options else "<two words>"
    encoder.add_tokens([tokenizers.AddedToken(content, **options)])
    assert not WordEncoder(encoder).knows


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    encoder = WordEncoder(_small(tmp_path), kept=20)
    for number in range(200):
        encoder.encode(f"word {number} of {'x' * 100}")
        assert encoder.held <= 40
