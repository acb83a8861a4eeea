"""No text is called too long that isn't, and what is gets encoded no further than need be."""

import random
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

import prompts.token_bound
from prompts import Message, PromptTokenizer, load_tokenizer
from prompts.encoding import encoded
from prompts.errors import TooManyTokensError
from prompts.segments import Prompt, RenderedSegment, Volatility
from prompts.token_bound import TokenBound
from tests.prompts.test_token_seams import fragments
from tests.tokenizer_folders import write_tokenizer
from tests.tokenizer_packages import MODELS, RealTokenizers

LIMIT = 1_000
MEGABYTE = 2**20
# What a cut in the wrong place has more tokens for: digits in groups, long words, runs of signs.
_REPEATED = (
    "\uff12\uff10\uff10\uff12", "12345678", "0", "a", "abc", "=", " ", "\n", "é", "👩🏽", "東",
    "aB", "'s", "!?",
)  # fmt: skip
repeated = st.tuples(st.sampled_from(_REPEATED), st.integers(1, 150))
texts = st.one_of(
    st.lists(fragments, max_size=60).map("".join),
    st.lists(repeated.map(lambda pair: pair[0] * pair[1]), max_size=6).map("".join),
)
# Each is repeated to a megabyte, of words, of one word, or of what is no word.
LONG = {
    "words": "The ferry leaves at nine. ",
    "one word": "a",
    "random letters": "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=50_000)),
    "blanks": " ",
    "lines": "\n",
    "digits": "1234567890",
    "signs": "=",
    "emoji": "👩🏽",
    "one letter's accents": "\u0323\u0301",
}  # fmt: skip


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, real_tokenizers: RealTokenizers) -> PromptTokenizer:
    return real_tokenizers.load(request.param)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> PromptTokenizer:
    return load_tokenizer(write_tokenizer(tmp_path_factory.mktemp("bound") / "tiny"))


@settings(max_examples=150, deadline=None)
@given(text=texts, piece=st.integers(1, 120), room=st.integers(0, 400))
def test_no_text_has_fewer_tokens_than_were_counted(
    model: PromptTokenizer, text: str, piece: int, room: int
) -> None:
    tokens = len(model.encoder.encode(text, add_special_tokens=False))
    least = model.cache.bound.least_tokens(text, room, piece_characters=piece)
    assert least <= tokens
    assert least > room or least == tokens or piece < len(text)


def test_what_is_counted_to_its_end_is_counted_right(model: PromptTokenizer) -> None:
    text = "The ferry leaves at nine, 12345 times a day.\n" * 400
    expected = len(model.encoder.encode(text, add_special_tokens=False))
    assert model.cache.bound.least_tokens(text, expected, piece_characters=500) == expected


@pytest.mark.parametrize("kind", LONG)
def test_what_is_too_long_is_not_encoded_to_its_end(
    tiny: PromptTokenizer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LONG[kind] * (MEGABYTE // len(LONG[kind]))
    read: list[int] = []

    def counted(encoder: tokenizers.Tokenizer, piece: str) -> tokenizers.Encoding:
        read.append(len(piece))
        return encoded(encoder, piece)

    monkeypatch.setattr(prompts.token_bound, "encoded", counted)
    with pytest.raises(TooManyTokensError, match="more than 1,000 tokens"):
        tiny.tokenize(_asking(text), limit=LIMIT)
    assert sum(read) <= MEGABYTE / 8
    assert tiny.cache.held_tokens < MEGABYTE / 8


def test_a_prompt_that_fits_is_the_same_with_a_limit(model: PromptTokenizer) -> None:
    prompt = _asking("The ferry leaves at nine. " * 500, "Yes.", "And on Sundays?" * 300)
    free = model.tokenize(prompt)
    assert model.tokenize(prompt, limit=len(free.token_ids)) == free


def test_one_that_is_a_little_too_long_is_encoded(tiny: PromptTokenizer) -> None:
    made = tiny.tokenize(_asking("The ferry leaves at nine. " * 200), limit=LIMIT)
    assert LIMIT < len(made.token_ids) < 2 * LIMIT


def test_many_messages_are_too_long_together(tiny: PromptTokenizer) -> None:
    with pytest.raises(TooManyTokensError):
        tiny.tokenize(_asking(*["And on Sundays?"] * 1_000), limit=LIMIT)


def test_what_is_known_of_a_prompt_counts_too(tmp_path: Path) -> None:
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer = load_tokenizer(write_tokenizer(tmp_path / "plain", chat_template=template))
    first = "The ferry leaves at nine. " * 150
    known = tokenizer.tokenize(_asking(first), limit=LIMIT)
    with pytest.raises(TooManyTokensError):
        tokenizer.tokenize(_asking(first, "And on Sundays? " * 300), limit=LIMIT)
    assert tokenizer.tokenize(_asking(first), limit=LIMIT) == known


def test_a_text_alone_is_counted_no_further(tiny: PromptTokenizer) -> None:
    assert tiny.count("The ferry", limit=LIMIT) == tiny.count("The ferry")
    with pytest.raises(TooManyTokensError):
        tiny.count("The ferry leaves at nine. " * 10_000, limit=LIMIT)


def test_control_tokens_count_as_one_where_they_are_not_text(tiny: PromptTokenizer) -> None:
    marks = "<|im_start|>" * 2 * LIMIT
    assert tiny.count(marks) > 3 * LIMIT
    tiny.check_count(marks, limit=LIMIT)
    with pytest.raises(TooManyTokensError):
        tiny.check_count(f"{marks}And on Sundays?", limit=LIMIT)


@pytest.mark.parametrize("options", [{"lstrip": True}, {"rstrip": True}])
def test_where_a_token_takes_blanks_along_nothing_is_refused(
    tmp_path: Path, options: dict[str, bool]
) -> None:
    encoder = tokenizers.Tokenizer.from_file(str(write_tokenizer(tmp_path) / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    encoder.add_tokens([tokenizers.AddedToken("<gap>", **options)])
    bound = TokenBound(encoder, tokenizer.cache._splitter)
    text = f"<gap>{' ' * 100_000}<gap>"
    assert len(encoder.encode(text)) < LIMIT
    assert not bound.is_beyond(text, LIMIT)


def test_a_text_without_any_token_is_counted_to_its_end(tiny: PromptTokenizer) -> None:
    encoder = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, []))
    bound = TokenBound(encoder, tiny.cache._splitter)
    assert bound.least_tokens("東" * 10_000 + "a", 1, piece_characters=100) == 1


def _asking(*texts: str) -> Prompt:
    said = tuple(Message(role=("user", "assistant")[n % 2], content=t) for n, t in enumerate(texts))
    segment = RenderedSegment(
        id="conversation", role="", volatility=Volatility.TURN, text="", message=0, expanded=said
    )
    return Prompt(template="chat@1", segments=(segment,))
