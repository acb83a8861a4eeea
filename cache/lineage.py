"""Earlier prompts to compare a new one with, of the same salt, template and collection.

A lineage knows which pieces its prompts were made of, and which prompt had each piece last. Kept
are digests, and token ids in packed form, never text. Bounded: the prompts that were met least
recently are forgotten.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cache.accounting_pieces import ID_BYTES, Piece, span_digest
from prompts import Volatility

# A segment that varies at its head is found again by its last tokens.
_TAIL_TOKENS = 16
_MOST_CANDIDATES = 4
_PIECE_BYTES = 400


Tail = tuple[str, bytes]
"""A segment, and the last packed tokens of its text."""


class LineageKey(NamedTuple):
    """What prompts must have in common to be compared; any version of the template."""

    salt: str
    template: str
    collection: str | None


@dataclass(slots=True, eq=False, kw_only=True)
class EarlierPrompt:
    """A prompt whose KV the engine had computed.

    `packed` has its token ids. `answers` are digests of the model's output as the message that it
    may be in the next prompt, once known. `lasting` are those of pieces that should stay the same,
    `tails` the last tokens of segments that may vary at their heads.
    """

    request_id: str
    template: str
    packed: bytes
    pieces: tuple[Piece, ...]
    tails: tuple[Tail, ...] = ()
    session: str | None = None
    answers: tuple[bytes, ...] = ()
    digests: frozenset[bytes] = field(init=False)
    lasting: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.digests = frozenset([piece.digest for piece in self.pieces])
        self.lasting = frozenset(
            [p.digest for p in self.pieces if p.document or p.volatility < Volatility.TURN]
        )

    @property
    def tokens(self) -> int:
        """Its length."""
        return len(self.packed) // ID_BYTES

    @property
    def weight(self) -> int:
        """About the bytes that it takes."""
        return len(self.packed) + _PIECE_BYTES * (1 + len(self.pieces))


class Recollection(NamedTuple):
    """What a lineage knew of a prompt when it was sent.

    `seen` says of each piece whether an earlier prompt had it. `candidates` are the earlier prompts
    worth comparing, the likeliest first. `tails` are the prompt's own.
    """

    seen: tuple[bool, ...] = ()
    candidates: tuple[EarlierPrompt, ...] = ()
    tails: tuple[Tail, ...] = ()


@dataclass(slots=True)
class _Lineage:
    pieces: dict[bytes, EarlierPrompt] = field(default_factory=dict)
    tails: dict[tuple[str, bytes], EarlierPrompt] = field(default_factory=dict)
    latest: EarlierPrompt | None = None
    prompts: int = 0


class Lineages:
    """All lineages, bounded together. One event loop owns it."""

    def __init__(self, *, max_prompts: int = 10_000, max_bytes: int = 64 << 20) -> None:
        self._max_prompts = max_prompts
        self._max_bytes = max_bytes
        self._lineages: dict[LineageKey, _Lineage] = {}
        self._prompts: OrderedDict[EarlierPrompt, LineageKey] = OrderedDict()
        self._of_salt: dict[str, dict[EarlierPrompt, None]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Prompts kept."""
        return len(self._prompts)

    @property
    def held_bytes(self) -> int:
        """About what they take."""
        return self._bytes

    def recall(self, key: LineageKey, pieces: Sequence[Piece], packed: bytes) -> Recollection:
        """What is known of a prompt's pieces, and the earlier prompts most like it."""
        tails = _tails(pieces, packed)
        lineage = self._lineages.get(key)
        if lineage is None:
            return Recollection(seen=(False,) * len(pieces), tails=tails)
        known = lineage.pieces
        earlier = [known.get(piece.digest) for piece in pieces]
        votes: dict[EarlierPrompt, int] = {}
        for piece, prompt in zip(pieces, earlier, strict=True):
            if prompt is not None:
                votes[prompt] = votes.get(prompt, 0) + piece.stop - piece.start
        for tail in tails:
            if (prompt := lineage.tails.get(tail)) is not None:
                votes[prompt] = votes.get(prompt, 0) + _TAIL_TOKENS
        if lineage.latest is not None:
            votes.setdefault(lineage.latest, 0)
        ranked = list(votes)
        if len(ranked) > 1:
            ranked.sort(key=votes.__getitem__, reverse=True)
        return Recollection(
            seen=tuple([prompt is not None for prompt in earlier]),
            candidates=tuple(ranked[:_MOST_CANDIDATES]),
            tails=tails,
        )

    def learn(self, key: LineageKey, prompt: EarlierPrompt) -> None:
        """Keep a prompt that was computed."""
        lineage = self._lineages.setdefault(key, _Lineage())
        for piece in prompt.pieces:
            lineage.pieces[piece.digest] = prompt
        for tail in prompt.tails:
            lineage.tails[tail] = prompt
        lineage.latest = prompt
        lineage.prompts += 1
        self._prompts[prompt] = key
        self._of_salt.setdefault(key.salt, {})[prompt] = None
        self._bytes += prompt.weight
        while len(self._prompts) > self._max_prompts or self._bytes > self._max_bytes:
            self._forget(next(iter(self._prompts)))

    def answered(self, prompt: EarlierPrompt, output: bytes) -> None:
        """The model's packed answer, as the message it will be: with or without a stop token."""
        key = self._prompts.get(prompt)
        if key is not None and output:
            whole = len(output) // ID_BYTES
            prompt.answers = tuple({span_digest(output, 0, n) for n in (whole, whole - 1) if n})
            for digest in prompt.answers:
                self._lineages[key].pieces[digest] = prompt

    def compared(self, earlier: EarlierPrompt, prompt: EarlierPrompt | None) -> None:
        """An earlier prompt was of use: keep it longer, unless the new one has all that it has."""
        if earlier not in self._prompts:
            return
        if prompt is not None and prompt is not earlier and earlier.lasting <= prompt.digests:
            self._forget(earlier)
        else:
            self._prompts.move_to_end(earlier)

    def forget_salt(self, salt: str) -> None:
        """Drop all that a salt had."""
        for prompt in list(self._of_salt.get(salt, ())):
            self._forget(prompt)

    def _forget(self, prompt: EarlierPrompt) -> None:
        key = self._prompts.pop(prompt)
        of_salt = self._of_salt[key.salt]
        del of_salt[prompt]
        if not of_salt:
            del self._of_salt[key.salt]
        self._bytes -= prompt.weight
        lineage = self._lineages[key]
        lineage.prompts -= 1
        if lineage.prompts == 0:
            del self._lineages[key]
            return
        for digest in (*prompt.digests, *prompt.answers):
            if lineage.pieces.get(digest) is prompt:
                del lineage.pieces[digest]
        for tail in prompt.tails:
            if lineage.tails.get(tail) is prompt:
                del lineage.tails[tail]
        if lineage.latest is prompt:
            lineage.latest = None


def _tails(pieces: Sequence[Piece], packed: bytes) -> tuple[Tail, ...]:
    """The last tokens of segments that may vary at their heads."""
    tails: list[Tail] = []
    for piece in pieces:
        if piece.document is None and piece.volatility < Volatility.TURN:
            stop = piece.own_stop - 1
            if stop - piece.start > 2 * _TAIL_TOKENS:
                ids = packed[(stop - _TAIL_TOKENS) * ID_BYTES : stop * ID_BYTES]
                tails.append((piece.segment, ids))
    return tuple(tails)
