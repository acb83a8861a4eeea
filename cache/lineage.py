"""Earlier prompts to compare a new one with, of the same salt, template and collection.

A lineage knows which pieces its prompts were made of, and which prompt had each piece last. Kept
are digests, and token ids in packed form, never text. Bounded: the prompts that were met least
recently are forgotten.
"""

from collections import OrderedDict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import repeat
from operator import attrgetter

import msgspec

from cache.accounting_pieces import DIGEST_BYTES, ID_BYTES, Piece
from prompts import Volatility

# A segment that varies at its head is found again by its last tokens.
_TAIL_TOKENS = 16
_MOST_CANDIDATES = 4
_PIECE_BYTES = 400
_FEW_PIECES = 8
_digest = attrgetter("digest")


Tail = tuple[str, bytes]
"""A segment, and the last packed tokens of its text."""


class LineageKey(msgspec.Struct, frozen=True, gc=False):
    """What prompts must have in common to be compared; any version of the template."""

    salt: str
    template: str
    collection: str | None


class EarlierPrompt(msgspec.Struct, kw_only=True, eq=False):
    """A prompt whose KV the engine had computed.

    `opening` and `rest` have its token ids, packed; `opening` is what other prompts may begin with
    too, and is held once for all of them. `answers` are digests of the model's output as the
    message that it may be in the next prompt, once known. `tails` are the last tokens of segments
    that may vary at their heads.
    """

    request_id: str
    template: str
    rest: bytes
    pieces: tuple[Piece, ...]
    opening: bytes = b""
    tails: tuple[Tail, ...] = ()
    session: str | None = None
    answers: tuple[bytes, ...] = ()
    digests: frozenset[bytes] | tuple[bytes, ...] = ()
    """Of all its pieces; made here, as the next one is. A set of few takes ten times as much."""
    weight: int = 0
    """About the bytes that it takes, but for its opening."""

    def __post_init__(self) -> None:
        many = len(self.pieces) > _FEW_PIECES
        self.digests = (frozenset if many else tuple)(map(_digest, self.pieces))
        self.weight = len(self.rest) + _PIECE_BYTES * (1 + len(self.pieces))

    def lasts_in(self, digests: Container[bytes]) -> bool:
        """Whether all of its pieces that should stay the same are among these."""
        for piece in reversed(self.pieces):  # what is missing is mostly the last
            lasting = piece.document or piece.volatility < Volatility.TURN
            if lasting and piece.digest not in digests:
                return False
        return True

    @property
    def packed(self) -> bytes:
        """Its token ids."""
        return self.opening + self.rest

    @property
    def tokens(self) -> int:
        """Its length."""
        return (len(self.opening) + len(self.rest)) // ID_BYTES


class Recollection(msgspec.Struct, kw_only=True, frozen=True):
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
    # Whether all that `latest` has is known to be its own, no other prompt's.
    owns_all: bool = False


@dataclass(slots=True)
class _Opening:
    packed: bytes
    prompts: int = 0


class Lineages:
    """All lineages, bounded together. One event loop owns it."""

    def __init__(self, *, max_prompts: int = 10_000, max_bytes: int = 64 << 20) -> None:
        self._max_prompts = max_prompts
        self._max_bytes = max_bytes
        self._lineages: dict[LineageKey, _Lineage] = {}
        self._prompts: OrderedDict[EarlierPrompt, LineageKey] = OrderedDict()
        self._of_salt: dict[str, dict[EarlierPrompt, None]] = {}
        # Each once, with how many prompts begin so.
        self._openings: dict[bytes, _Opening] = {}
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
        lineage = self._lineages.get(key)
        if lineage is not None and lineage.owns_all:
            found = _after_latest(lineage, pieces)
            if found is not None:
                return found
        tails = _tails(pieces, packed)
        if lineage is None:
            return Recollection(seen=(False,) * len(pieces), tails=tails)
        earlier = list(map(lineage.pieces.get, map(_digest, pieces)))
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
            seen=tuple(map(bool, earlier)),
            candidates=tuple(ranked[:_MOST_CANDIDATES]),
            tails=tails,
        )

    def learn(self, key: LineageKey, prompt: EarlierPrompt) -> None:
        """Keep a prompt that was computed."""
        lineage = self._lineages.get(key)
        if lineage is None:
            lineage = self._lineages[key] = _Lineage()
        for piece in prompt.pieces:
            lineage.pieces[piece.digest] = prompt
        for tail in prompt.tails:
            lineage.tails[tail] = prompt
        lineage.latest, lineage.owns_all = prompt, True
        lineage.prompts += 1
        self._prompts[prompt] = key
        of_salt = self._of_salt.get(key.salt)
        if of_salt is None:
            of_salt = self._of_salt[key.salt] = {}
        of_salt[prompt] = None
        self._bytes += prompt.weight
        if prompt.opening:
            self._take(prompt)
        while len(self._prompts) > self._max_prompts or self._bytes > self._max_bytes:
            self._forget(next(iter(self._prompts)))

    def answered(self, prompt: EarlierPrompt, output: bytes) -> None:
        """The model's packed answer, as the message it will be: with or without a stop token."""
        key = self._prompts.get(prompt)
        if key is not None and output:
            # `span_digest` of the whole, and of all but its last token.
            digests = [blake2b(output, digest_size=DIGEST_BYTES).digest()]
            if len(output) > ID_BYTES:
                digests.append(blake2b(output[:-ID_BYTES], digest_size=DIGEST_BYTES).digest())
            prompt.answers = tuple(digests)
            lineage = self._lineages[key]
            for digest in digests:
                if lineage.pieces.get(digest) is lineage.latest is not prompt:
                    lineage.owns_all = False
                lineage.pieces[digest] = prompt

    def compared(self, earlier: EarlierPrompt, prompt: EarlierPrompt | None) -> None:
        """An earlier prompt was of use: keep it longer, unless the new one has all that it has."""
        if earlier not in self._prompts:
            return
        if prompt is not None and prompt is not earlier and earlier.lasts_in(prompt.digests):
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
        if prompt.opening:
            self._leave(prompt.opening)
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
            lineage.latest, lineage.owns_all = None, False

    def _take(self, prompt: EarlierPrompt) -> None:
        known = self._openings.get(prompt.opening)
        if known is None:
            known = self._openings[prompt.opening] = _Opening(prompt.opening)
            self._bytes += len(prompt.opening)
        prompt.opening = known.packed
        known.prompts += 1

    def _leave(self, opening: bytes) -> None:
        known = self._openings[opening]
        known.prompts -= 1
        if not known.prompts:
            del self._openings[opening]
            self._bytes -= len(opening)


def _after_latest(lineage: _Lineage, pieces: Sequence[Piece]) -> Recollection | None:
    """What `recall` finds where a prompt is the latest one but for a new last message, as most are.

    None: it isn't so.
    """
    latest = lineage.latest
    if latest is None or not pieces or len(pieces) != len(latest.pieces):
        return None
    new, old = pieces[-1], latest.pieces[-1]
    # Neither has a tail.
    if new.document is None or old.document is None or new.digest in lineage.pieces:
        return None
    if tuple(pieces[:-1]) != latest.pieces[:-1]:
        return None
    seen = (*repeat(True, len(pieces) - 1), False)
    return Recollection(seen=seen, candidates=(latest,), tails=latest.tails)


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
