"""What was measured of mirrored requests: lines in two files that take turns. No text is kept."""

import os
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

_CURRENT, _EARLIER = "rows.jsonl", "rows.1.jsonl"
# While they can't be written: about 4 MB.
_MOST_BUFFERED = 10_000


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two answers; what isn't known is None. Times in seconds from its sending."""

    ttft_s: float | None = None
    e2e_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


class ShadowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One mirrored request.

    Attributes:
        target: the URL that it went to.
        whole: whether the target has got all earlier turns of its conversation.
        error: why there is no answer of the target's, as a fixed word.
        status: the target's HTTP status.
        equal: whether both said the same; None where that isn't to be expected.
        common: share of the longer answer that both begin with; None likewise.
    """

    at: datetime
    target: str
    request_id: str
    conversation: str
    tenant: str
    template: str
    whole: bool
    live: Side
    shadow: Side
    error: str | None = None
    status: int | None = None
    equal: bool | None = None
    common: float | None = None

    @property
    def tells_reuse(self) -> bool:
        """Whether both sides' re-use is known, of prompts that both could know as well."""
        sides = (self.live, self.shadow)
        known = all(s.cached_tokens is not None and s.prompt_tokens for s in sides)
        return self.whole and self.error is None and known


class ShadowRows:
    """The files; any thread may call.

    Args:
        keep_bytes: about the most that both files take together; then the older half goes.
    """

    def __init__(self, folder: Path, *, keep_bytes: int) -> None:
        self.lost = 0
        """Rows that couldn't be written since the start."""
        self._folder = folder
        self._file_bytes = keep_bytes // 2
        self._lock = threading.Lock()
        self._buffered: list[bytes] = []

    @property
    def has_buffered(self) -> bool:
        """Whether `flush` has something to do."""
        return bool(self._buffered)

    def add(self, row: ShadowRow) -> None:
        """Take a row; `flush` writes it."""
        with self._lock:
            if len(self._buffered) < _MOST_BUFFERED:
                self._buffered.append(msgspec.json.encode(row))
            else:
                self.lost += 1

    def flush(self) -> None:
        """Write what was added; what can't be written is lost, and counted."""
        with self._lock:
            lines, self._buffered = self._buffered, []
            if not lines:
                return
            try:
                self._append(b"\n".join(lines) + b"\n")
            except OSError:
                self.lost += len(lines)

    def read(self) -> list[ShadowRow]:
        """All rows that are kept, the oldest first."""
        self.flush()
        with self._lock:
            texts = [self._text(name) for name in (_EARLIER, _CURRENT)]
        return [row for text in texts for row in _rows(text)]

    def _append(self, text: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / _CURRENT
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
            file.write(text)
            size = file.tell()
        if size >= self._file_bytes:
            path.replace(self._folder / _EARLIER)

    def _text(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return b""


def _rows(text: bytes) -> Iterator[ShadowRow]:
    """A line that a crash cut short, or another version wrote, is passed over."""
    decoder = msgspec.json.Decoder(ShadowRow)
    for line in text.splitlines():
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError:
            continue
