"""Token ids of many long texts that have passages in common, each passage encoded once.

A text is cut after long lines, so that texts which differ somewhere are cut at the same places
again further on. From each cut, what comes is encoded together with the text before whose tokens
it could still change, and the seam is checked as in `TokenCache`. Such a run of text depends on
nothing before it: whatever text it is met in, its tokens are known.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tokenizers

from prompts.encoding import encoded
from prompts.token_splitting import Splitter, Splitting

# Below this many characters, a text is encoded in one go.
_WHOLE = 1_024
_LONG_LINE = 64
_LONGEST_RUN = 2_048
_ENTRY_BYTES = 300
DEFAULT_CAPACITY_BYTES = 64 << 20
ID_BYTES = array("I").itemsize


class _Run(NamedTuple):
    """A text's packed ids; those before `settled` bytes stay, whatever follows.

    `rest` is the text of the others, and `witness` how their ids begin for certain.
    """

    ids: bytes
    settled: int
    rest: str
    witness: bytes


class RunEncoder:
    """Encodes texts to packed 32-bit ids; bounded, and safe to share between threads."""

    def __init__(
        self, encoder: tokenizers.Tokenizer, *, capacity_bytes: int = DEFAULT_CAPACITY_BYTES
    ) -> None:
        self._encoder = encoder
        self._splitter = Splitter(encoder)
        self._capacity = capacity_bytes
        self._held = 0
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """What is kept, at most the capacity."""
        return self._held

    def encode(self, text: str) -> bytes:
        """The ids of a text, encoded as if in one go."""
        if len(text) <= _WHOLE or self._splitter.splitting is Splitting.NONE:
            return self._run(text, whole=True).ids
        made: list[bytes] = []
        rest, expected = "", b""
        last: _Run | None = None
        for part in _parts(text):
            run = self._run(rest + part)
            if not run.ids.startswith(expected):
                return self._packed(text)
            last = run
            made.append(run.ids[: run.settled])
            rest, expected = run.rest, run.witness
        assert last is not None
        return b"".join([*made, last.ids[last.settled :]])

    def _run(self, text: str, *, whole: bool = False) -> _Run:
        with self._lock:
            known = self._runs.get(text)
            if known is not None:
                self._runs.move_to_end(text)
                return known
        run = _Run(self._packed(text), 0, text, b"") if whole else self._settled(text)
        with self._lock:
            if text not in self._runs:
                self._runs[text] = run
                self._held += _weight(text, run)
            while self._held > self._capacity:
                self._held -= _weight(*self._runs.popitem(last=False))
        return run

    def _settled(self, text: str) -> _Run:
        encoding = encoded(self._encoder, text)
        settled = self._splitter.settled(text, encoding)
        ids = array("I", encoding.ids).tobytes()
        start = settled.token * ID_BYTES
        witness = ids[start : start + settled.witnesses * ID_BYTES]
        return _Run(ids, start, text[settled.character :], witness)

    def _packed(self, text: str) -> bytes:
        (encoding,) = self._encoder.encode_batch_fast([text], add_special_tokens=False)
        return array("I", encoding.ids).tobytes()


def _parts(text: str) -> Iterator[str]:
    """The text, cut after each long line, and where a run would become too long."""
    start = at = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        if len(line) >= _LONG_LINE:
            yield from _bounded(text[start:at])
            start = at
    if start < at:
        yield from _bounded(text[start:at])


def _bounded(text: str) -> Sequence[str]:
    if len(text) <= _LONGEST_RUN:
        return (text,)
    return [text[start : start + _LONGEST_RUN] for start in range(0, len(text), _LONGEST_RUN)]


def _weight(text: str, run: _Run) -> int:
    return len(text) + len(run.ids) + _ENTRY_BYTES
