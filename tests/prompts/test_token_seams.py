"""Ids from the cache are those of the whole text, wherever it is cut, for five real tokenizers."""

import threading

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prompts.token_cache import TokenCache
from prompts.token_splitting import Splitter, Splitting
from tests.tokenizer_packages import MODELS, RealTokenizers

# What seams have tripped over: digits in groups, runs of white space, line ends, marks that join
# the letter before them, Hangul letters, emoji sequences, added tokens cut in two, ligatures.
_FRAGMENTS = (
    "hello world ", "The quick brown fox", "12345678901234", "7", " ", "  ", "\t", "\n", "\n\n\n",
    "\r\n", "\r", "é", "e\u0301", "\u0301", "日本語", "東京都", "한국어", "\u1100", "\u1161\u11a8",
    "👩🏽\u200d🚀", "👨\u200d👩\u200d👧", "\u200d", "🚀", "'s", "'", "'re", " don't ", "<tool",
    "_call>", "<think>", "<|im", "_end|>", "<|im_end|>", "<start_of", "_turn>", "<\uff5cUser",
    "\uff5c>", "def f(x):\n    return x+1\n", "...", "!!!???", "a", "a" * 40, "x" * 90, " " * 70,
    "\n" * 40, "1" * 50, "\u00a0", "\u3000", "ﬁ", "①", "Größe naïve", "नमस्ते", "สวัสดี", "مرحبا",
    "\u09be\u09c7", "<unused5>", "▁", "▁▁▁", "Ġ", "http://a.b/c?d=e&f", '{"a": 1.50, "b": [1, 2]}',
    "</", "td>",
)  # fmt: skip

fragments = st.one_of(st.sampled_from(_FRAGMENTS), st.text(max_size=8))
part_texts = st.lists(fragments, max_size=30).map("".join)
part_lists = st.lists(part_texts.filter(bool), min_size=1, max_size=5)
# One session-wide tokenizer serves all examples: its cache is what is being tested.
shared = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cache(model: str, real_tokenizers: RealTokenizers) -> TokenCache:
    return real_tokenizers.load(model).cache


@pytest.fixture(scope="module")
def whole(model: str, real_tokenizers: RealTokenizers) -> tokenizers.Tokenizer:
    """The tokenizer as it is, but that no text is a control token."""
    return real_tokenizers.load(model).encoder


@shared
@given(parts=part_lists)
def test_parts_are_encoded_as_one_text(
    parts: list[str], cache: TokenCache, whole: tokenizers.Tokenizer
) -> None:
    expected = whole.encode("".join(parts), add_special_tokens=False)
    made = cache.encode(parts)
    assert list(made.ids) == expected.ids
    starts = [first for first, _ in expected.offsets]
    position = 0
    for part, seam in zip(parts, made.seams, strict=True):
        assert all(start < position for start in starts[:seam])
        assert all(start >= position for start in starts[seam:])
        position += len(part)


@shared
@given(parts=part_lists, other=part_texts.filter(bool))
def test_a_changed_tail_is_encoded_as_one_text_too(
    parts: list[str], other: str, cache: TokenCache, whole: tokenizers.Tokenizer
) -> None:
    cache.encode(parts)
    changed = [*parts[:-1], other]
    expected = whole.encode("".join(changed), add_special_tokens=False).ids
    assert list(cache.encode(changed).ids) == expected


def test_only_the_tail_is_encoded(cache: TokenCache, whole: tokenizers.Tokenizer) -> None:
    """A long beginning is settled up to the last few dozen characters."""
    text = "The ferry leaves at nine and comes back at noon, on all 365 days of the year.\n" * 40
    settled = Splitter(whole).settled(text, whole.encode(text, add_special_tokens=False))
    assert settled.character > len(text) - 100
    assert settled.witnesses >= 1


def test_the_cache_stays_within_its_capacity(whole: tokenizers.Tokenizer) -> None:
    small = TokenCache(whole, capacity_tokens=2000)
    for number in range(200):
        parts = [f"document {number} ", "lines of text " * 20]
        expected = whole.encode("".join(parts), add_special_tokens=False).ids
        assert list(small.encode(parts).ids) == expected
        assert small.held_tokens <= 2000


def test_threads_may_share_a_cache(whole: tokenizers.Tokenizer) -> None:
    small = TokenCache(whole, capacity_tokens=3000)
    texts = [[f"rules {n % 7} ", "a b c " * 20, f"question {n}"] for n in range(40)]
    expected = [whole.encode("".join(parts), add_special_tokens=False).ids for parts in texts]
    wrong: list[int] = []

    def work() -> None:
        for _ in range(5):
            for number, parts in enumerate(texts):
                if list(small.encode(parts).ids) != expected[number]:
                    wrong.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("pattern", "splitting"),
    [
        (r"\p{N}| ?\p{L}+|\s+(?!\S)|\s+", Splitting.WORDS),
        (r"[$^]+| ?\p{L}+", Splitting.WORDS),
        (r"\p{N}{1,3}(?=(?:\p{N}{3})*\b)| ?\p{L}+", Splitting.NONE),
        (r"(?<=a)b| ?\p{L}+", Splitting.NONE),
        (r"^\p{L}+| ?\p{L}+", Splitting.NONE),
    ],
)
def test_a_pattern_that_looks_far_is_not_cut(pattern: str, splitting: Splitting) -> None:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    assert Splitter(tokenizer).splitting is splitting


def test_tokenizers_of_other_kinds_are_encoded_whole() -> None:
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    assert Splitter(words).splitting is Splitting.NONE
    assert TokenCache(words).encode(["a b ", "a"]).ids == [0, 1, 0]
    first = tokenizers.Tokenizer(tokenizers.models.BPE())
    first.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="first")
    assert Splitter(first).splitting is Splitting.NONE
