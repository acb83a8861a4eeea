"""Token ids of texts seen before, so that only what is new is encoded, with exact seams.

A span of a prompt comes in parts: a role's name, the rules, the documents. Each part that follows
another is a node under it, and a node keeps the ids that no later part can change together with
the text whose ids could. A new part is encoded together with that text only, and the seam is
checked: the fresh ids must begin as the settled ones go on. If they don't, the whole is encoded.
"""

import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count

import tokenizers

from prompts.encoding import encoded
from prompts.token_bound import TokenBound
from prompts.token_splitting import Settled, Splitter
from prompts.words import LONGEST, WordEncoder

# About 50 MB; a prompt of 100,000 tokens takes 5 % of it.
DEFAULT_CAPACITY_TOKENS = 2_000_000
# What an entry costs beside its tokens, in tokens: the objects around it, and its text.
_ENTRY_TOKENS = 64
_CHARACTERS_PER_TOKEN = 8


# Not frozen, for the reason that `record` has.
@dataclass(slots=True)
class EncodedSpan:
    """Ids of a span, and for each part the index of the first token that starts in or after it.

    `starts` has the character of the span at which each token starts, `packed` the ids as unsigned
    32-bit numbers in the machine's byte order. `notes` is for what a reader found out about a span
    and wants to find again; it goes when the span is forgotten.
    """

    ids: Sequence[int]
    seams: tuple[int, ...]
    starts: "array[int]" = field(default_factory=lambda: array("I"), repr=False)
    packed: bytes = field(default=b"", repr=False)
    notes: dict[object, object] = field(default_factory=dict, compare=False, repr=False)


@dataclass(slots=True, kw_only=True)
class _Node:
    """A part in its place after others.

    The span up to here is what is settled of `base`, then `ids`, which start at the characters
    `starts` of the span. Of these, those before `settled.token` are final; `rest` is the text of
    the others, from the span's character `settled.character` on. Of a short text, what is settled
    is found out when another part follows: `settled` is None until then, `rest` the whole text.
    `before` is how many tokens of the span come before `ids`.
    """

    number: int
    base: "_Node | None"
    before: int
    ids: list[int]
    starts: "array[int]"
    settled: Settled | None
    rest: str
    start: int
    whole: EncodedSpan | None = None


class TokenCache:
    """Encodes spans; bounded, and safe to share between threads."""

    def __init__(
        self, encoder: tokenizers.Tokenizer, *, capacity_tokens: int = DEFAULT_CAPACITY_TOKENS
    ) -> None:
        self._encoder = encoder
        self._splitter = Splitter(encoder)
        self._words = WordEncoder(encoder)
        self.bound = TokenBound(encoder, self._splitter)
        self._capacity = capacity_tokens
        self._held = 0
        self._numbers = count(1)
        self._nodes: OrderedDict[tuple[int, str], _Node] = OrderedDict()
        self._lock = threading.Lock()
        # One object for each id: equal prompts then compare by identity.
        self._ids = list(range(encoder.get_vocab_size()))

    @property
    def held_tokens(self) -> int:
        """What is kept, in tokens or what weighs as much; at most the capacity."""
        return self._held

    def encode(self, parts: Sequence[str]) -> EncodedSpan:
        """The ids of the parts, encoded as one text."""
        node, known = self._walk(parts)
        for depth in range(known, len(parts)):
            key = (node.number if node else 0, parts[depth])
            node = self._keep(key, self._make(node, parts[: depth + 1]))
        if node is None:
            return EncodedSpan((), ())
        if node.whole is None:
            node.whole = _whole(node, parts)
        return node.whole

    def is_beyond(self, parts: Sequence[str], room: int) -> bool:
        """Whether the parts surely have more than `room` tokens; what isn't known of them is
        counted, as far as need be."""
        if not self.bound.may_be_beyond(sum(map(len, parts)), room):
            return False
        node, known = self._walk(parts)
        new = "".join(parts[known:])
        if node is None or not new:
            return self.bound.is_beyond(new, room)
        settled = self._settled(node)
        return self.bound.is_beyond(node.rest + new, room - node.before - settled.token)

    def encode_anew(self, parts: Sequence[str]) -> EncodedSpan:
        """The same for parts of which nothing is to be kept but the words: they end in a text that
        was never seen, and nothing that follows it is encoded after it."""
        text = "".join(parts)
        if not self._words.knows or len(text) >= LONGEST:
            return self.encode(parts)
        ids, starts = self._words.encode(text)
        seams, character = [], 0
        for part in parts:
            seams.append(bisect_left(starts, character) if character else 0)
            character += len(part)
        return EncodedSpan(ids, tuple(seams), starts, array("I", ids).tobytes())

    def _walk(self, parts: Sequence[str]) -> tuple[_Node | None, int]:
        """The node of as many parts as are known, and how many that is."""
        node: _Node | None = None
        with self._lock:
            for depth, part in enumerate(parts):
                key = (node.number if node else 0, part)
                found = self._nodes.get(key)
                if found is None:
                    return node, depth
                self._nodes.move_to_end(key)
                node = found
        return node, len(parts)

    def _keep(self, key: tuple[int, str], node: _Node) -> _Node:
        """The node that is kept from now on: another thread's, if it was quicker."""
        with self._lock:
            if (earlier := self._nodes.get(key)) is not None:
                return earlier
            self._nodes[key] = node
            self._held += _weight(key, node)
            while self._held > self._capacity:
                dropped = self._nodes.popitem(last=False)
                self._held -= _weight(*dropped)
            return node

    def _make(self, parent: _Node | None, parts: Sequence[str]) -> _Node:
        """The node of the last part; those of the parts before it end in `parent`."""
        anchor = parent if parent is None or self._settled(parent).token else parent.base
        if parent is None or anchor is None:
            return self._encoded(None, "".join(parts), 0)
        settled = self._settled(anchor)
        node = self._encoded(anchor, parent.rest + parts[-1], settled.character)
        first, witnesses = settled.token, settled.witnesses
        if node.ids[:witnesses] == anchor.ids[first : first + witnesses]:
            return node
        return self._encoded(None, "".join(parts), 0)

    def _settled(self, node: _Node) -> Settled:
        """What of a node is final; threads may find out at once, and find the same."""
        if node.settled is None:
            text, start = node.rest, node.start
            found = self._splitter.settled(text, encoded(self._encoder, text))
            settled = Settled(found.token, start + found.character, found.witnesses)
            with self._lock:
                if node.settled is None:
                    node.rest, node.settled = text[found.character :], settled
        return node.settled

    def _encoded(self, base: _Node | None, text: str, start: int) -> _Node:
        before = 0
        if base is not None:
            assert base.settled is not None  # or nothing could follow it
            before = base.before + base.settled.token
        if self._words.knows and len(text) < LONGEST:
            ids, starts = self._words.encode(text, start)
            return _Node(
                number=next(self._numbers),
                base=base,
                before=before,
                ids=ids,
                starts=starts,
                settled=None,
                rest=text,
                start=start,
            )
        encoding = encoded(self._encoder, text)
        settled = self._splitter.settled(text, encoding)
        ids = encoding.ids
        if max(ids, default=0) < len(self._ids):
            ids = [self._ids[i] for i in ids]
        return _Node(
            number=next(self._numbers),
            base=base,
            before=before,
            ids=ids,
            starts=array("I", (start + first for first, _ in encoding.offsets)),
            settled=Settled(settled.token, start + settled.character, settled.witnesses),
            rest=text[settled.character :],
            start=start,
        )


def _whole(node: _Node, parts: Sequence[str]) -> EncodedSpan:
    pieces = [(node.ids, node.starts)]
    base = node.base
    while base is not None:
        assert base.settled is not None  # or nothing could follow it
        pieces.append((base.ids[: base.settled.token], base.starts[: base.settled.token]))
        base = base.base
    ids: list[int] = []
    starts = array("I")
    for more_ids, more_starts in reversed(pieces):
        ids.extend(more_ids)
        starts.extend(more_starts)
    characters = accumulate((len(part) for part in parts[:-1]), initial=0)
    seams = tuple(bisect_left(starts, character) for character in characters)
    return EncodedSpan(ids, seams, starts, array("I", ids).tobytes())


def _weight(key: tuple[int, str], node: _Node) -> int:
    return 3 * len(node.ids) + len(key[1]) // _CHARACTERS_PER_TOKEN + _ENTRY_TOKENS
