"""The gauge: sums over words, as good as the tokenizer's own additivity."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from retrieval.gauge import TokenGauge

TEXTS = st.text(alphabet="ab .\n", max_size=200)


def words(text: str) -> int:
    return len(text.split())


@given(TEXTS)
def test_whole_words_are_counted_exactly(text: str) -> None:
    gauge = TokenGauge(text, words)
    assert gauge.total == gauge.tokens(0, len(text)) == words(text)


@given(TEXTS, st.data())
def test_a_span_counts_the_words_that_it_touches(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    touched = TokenGauge(text, words).tokens(start, end)
    assert words(text[start:end]) <= touched <= words(text[start:end]) + 1


@given(TEXTS, st.integers(0, 200), st.integers(1, 20))
def test_what_it_reaches_has_no_more_than_asked(text: str, start: int, tokens: int) -> None:
    start = min(start, len(text))
    end = TokenGauge(text, words).reach(start, tokens)
    assert end == 0 or words(text[start:end]) <= tokens


def test_each_word_is_encoded_once(count_tokens: Callable[[str], int]) -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return count_tokens(text)

    TokenGauge("the ferry and the ferry and the quay " * 100, count)
    assert len(asked) == len(set(asked)) <= 6
