"""About how many tokens any span of a text has, after counting its words once.

Encoding a span to count it costs as much as the span is long, and a chunker asks about many
overlapping spans. Most words of a text stand in it many times: each is encoded once, and sums over
words settle most questions. They are estimates, since merges may straddle two words.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate

# A word with the white space before it, since that is where tokenizers begin words; longer runs
# (base64, Chinese) in parts.
_WORD = re.compile(r"\s{0,32}\S{1,64}|\s{1,32}")


class TokenGauge:
    """Estimated token counts of spans of one text."""

    def __init__(self, text: str, count_tokens: Callable[[str], int]) -> None:
        words = [found[0] for found in _WORD.finditer(text)]
        counts = {word: count_tokens(word) for word in dict.fromkeys(words)}
        self._ends = array("q", accumulate(map(len, words), initial=0))
        self._sums = array("q", accumulate((counts[word] for word in words), initial=0))

    @property
    def total(self) -> int:
        """Tokens of the whole text."""
        return self._sums[-1]

    def tokens(self, start: int, end: int) -> int:
        """Tokens of the words that a span touches."""
        first = bisect_right(self._ends, start) - 1
        return self._sums[bisect_left(self._ends, end)] - self._sums[first]

    def reach(self, start: int, tokens: int) -> int:
        """Where a span that begins at `start` ends with the last word that fits into so many."""
        target = self._sums[bisect_right(self._ends, start) - 1] + tokens
        return self._ends[bisect_right(self._sums, target) - 1]
