"""One part of a group's prompts, such as the system message, with shared text before the rest.

Nothing is left out: what varies moves behind what is shared, lists are put in one order. Only the
token counts and the shared openings of the result matter, not how it reads.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from cache.request_log.patterns import ANY_ID, CLOCK, EMAIL
from cache.request_log.pieces import split_blocks, split_pieces
from cache.request_log.structures import is_example

_ITEMS = frozenset(("FW204", "FW209"))
_SORTED = frozenset(("FW502", *_ITEMS))
# Whatever varies moves, unless a code says of which kind it is.
_ANY_VALUE = frozenset(("FW101", "FW104", "FW105", "FW106", "FW501"))
_KINDS = (("FW102", CLOCK), ("FW103", ANY_ID), ("FW104", EMAIL))
REARRANGED = frozenset(("FW102", "FW103", "FW107", *_ANY_VALUE, *_SORTED))
# A longer text is no clock or id, though it may hold one, as documents do.
_SHORT = 300
# Pieces in so many of the texts are shared by all of the group's requests.
_SHARED_BY = 0.95


@dataclass(frozen=True, slots=True)
class _Item:
    """Text that stays together; `shared` by the group's requests or a request's own."""

    text: str
    shared: bool


class Rearrangement:
    """Learns from some texts of a part what they share, and then puts that first in any of them."""

    def __init__(self, texts: Sequence[str], codes: frozenset[str]) -> None:
        self._codes = codes
        self._order = _order(texts)
        self._times = _times(texts)
        self._examples: list[_Item] | None = None

    def apply(self, text: str) -> tuple[str, str]:
        """The text as it should be, and what of it belongs behind everything that is shared."""
        items = self._items(text)
        if "FW107" in self._codes:
            items = self._with_fixed_examples(items)
        if self._codes & _ITEMS:
            items = [item if item.shared else _sorted_words(item) for item in items]
        if self._codes & _SORTED:
            items = self._sorted_in_place(items)
        moved = [not item.shared and self._moves(item.text) for item in items]
        kept = [item.text for item, moves in zip(items, moved, strict=True) if not moves]
        rest = [item.text for item, moves in zip(items, moved, strict=True) if moves]
        return "".join(kept), "".join(rest)

    def _items(self, text: str) -> list[_Item]:
        """Shared pieces one by one, a block's own pieces together."""
        items: list[_Item] = []
        whole = split_pieces(text)
        left = Counter(whole)
        for block in split_blocks(whole):
            for shared, found in groupby(block, key=lambda piece: self._is_shared(piece, left)):
                pieces = list(found)
                texts = pieces if shared else ["".join(pieces)]
                items += [_Item(text=text, shared=shared) for text in texts]
        return items

    def _is_shared(self, piece: str, left: Counter[str]) -> bool:
        """Whether this occurrence is one that all texts have; own ones come before those."""
        left[piece] -= 1
        return piece in self._order and left[piece] < self._times[piece]

    def _with_fixed_examples(self, items: list[_Item]) -> list[_Item]:
        """The examples of the first text in the place of a text's own."""
        examples = [item for item in items if not item.shared and is_example(item.text)]
        if self._examples is None:
            self._examples = examples
        if not examples:
            return items
        at = items.index(examples[0])
        rest = [item for item in items if item not in examples]
        return [*rest[:at], *self._examples, *rest[at:]]

    def _sorted_in_place(self, items: list[_Item]) -> list[_Item]:
        """Shared pieces in their one order and own ones by their text, each kind in its places."""
        order = self._order
        shared = iter(sorted((i for i in items if i.shared), key=lambda item: order[item.text]))
        own = iter(sorted((i for i in items if not i.shared), key=lambda item: item.text))
        return [next(shared) if item.shared else next(own) for item in items]

    def _moves(self, text: str) -> bool:
        """Whether a text of a request's own is of a kind that the codes move behind the rest."""
        if len(text) <= _SHORT:
            kinds = [code for code, pattern in _KINDS if pattern.search(text)]
            if kinds:
                return any(code in self._codes for code in kinds)
        return bool(self._codes & _ANY_VALUE) or self._holds_moving_kind(text)

    def _holds_moving_kind(self, text: str) -> bool:
        return any(code in self._codes and pattern.search(text) for code, pattern in _KINDS)


def _order(texts: Sequence[str]) -> dict[str, int]:
    """The pieces that the texts share, each with its place."""
    counts = Counter(piece for text in texts for piece in set(split_pieces(text)))
    needed = max(2, _SHARED_BY * len(texts))
    ranks: dict[str, int] = {}
    for text in texts:
        for piece in split_pieces(text):
            if counts[piece] >= needed:
                ranks.setdefault(piece, len(ranks))
    return ranks


def _times(texts: Sequence[str]) -> dict[str, int]:
    """How often each piece is in every text that has it."""
    times: dict[str, int] = {}
    for text in texts:
        for piece, count in Counter(split_pieces(text)).items():
            times[piece] = min(count, times.get(piece, count))
    return times


def _sorted_words(item: _Item) -> _Item:
    """A text's words in one order; items of a collection may share a line."""
    return _Item(text=" ".join(sorted(re.findall(r"\w+", item.text))), shared=False)
