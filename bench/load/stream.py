"""What a streamed answer said, and when: its text, usage, tiers and Foreword's own block. Pure.

A chunk that has only a role, or only usage, isn't a first token. The text of reasoning and the
arguments of tool calls count as text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

Piece = tuple[float, bytes]

_DONE = b"[DONE]"
_SGLANG_TIERS = {"device": "gpu", "host": "ram", "storage": "storage"}


@dataclass(slots=True, kw_only=True)
class Streamed:
    """One answer.

    Attributes:
        times: when each piece of text came, by the clock of the pieces.
        by_tier: tokens re-used from each tier; None: not told.
        error: of the answer itself; None: it has none.
        finished: a finish reason or the end mark came.
    """

    times: list[float] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    by_tier: Mapping[str, int | None] | None = None
    ideal_tokens: int | None = None
    verdict: str | None = None
    error: str | None = None
    finished: bool = False

    @property
    def text(self) -> str:
        """The answer; without its reasoning and calls, which no later turn has."""
        return "".join(self.parts)


def read_stream(pieces: Sequence[Piece]) -> Streamed:
    """An event stream; an event has the time of the piece that ended it."""
    streamed = Streamed()
    for at, data in _events(pieces):
        if data == _DONE:
            streamed.finished = True
            continue
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            streamed.error = "a chunk of the stream isn't JSON"
            continue
        if isinstance(chunk, dict):
            _read_chunk(streamed, chunk, at)
    return streamed


def read_whole(pieces: Sequence[Piece]) -> Streamed:
    """An answer that wasn't streamed: all of its text came with its last piece."""
    streamed = Streamed()
    try:
        answer = orjson.loads(b"".join(data for _, data in pieces))
    except orjson.JSONDecodeError:
        answer = None
    if isinstance(answer, dict):
        _read_chunk(streamed, answer, pieces[-1][0])
    else:
        streamed.error = "the answer isn't JSON"
    return streamed


def error_text(body: bytes) -> str:
    """What an answer that isn't good says of itself, shortly."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body[:200].decode(errors="replace")
    match told:
        case {"error": {"message": str(message)}} | {"message": str(message)}:
            return message[:200]
        case {"error": str(message)}:
            return message[:200]
    return body[:200].decode(errors="replace")


def _events(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The data of each event that has some; a line may be cut anywhere."""
    held = b""
    for at, piece in pieces:
        held += piece
        *lines, held = held.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield at, line[5:].strip()


def _read_chunk(streamed: Streamed, chunk: Mapping[str, Any], at: float) -> None:
    if chunk.get("error"):
        streamed.error = error_text(orjson.dumps(chunk))
    for choice in chunk.get("choices") or ():
        said = choice.get("delta") or choice.get("message") or {}
        if text := said.get("content"):
            streamed.parts.append(text)
        if text or said.get("reasoning_content") or said.get("tool_calls"):
            streamed.times.append(at)
        streamed.finished = streamed.finished or bool(choice.get("finish_reason"))
    if usage := chunk.get("usage"):
        _read_usage(streamed, usage)
    if extension := chunk.get("sglext"):
        _read_sglang(streamed, extension)
    if block := chunk.get("foreword"):
        _read_foreword(streamed, block)


def _read_usage(streamed: Streamed, usage: Mapping[str, Any]) -> None:
    streamed.prompt_tokens = usage.get("prompt_tokens")
    streamed.output_tokens = usage.get("completion_tokens")
    details = usage.get("prompt_tokens_details") or {}
    streamed.cached_tokens = details.get("cached_tokens")


def _read_sglang(streamed: Streamed, extension: Mapping[str, Any]) -> None:
    details = extension.get("cached_tokens_details")
    if details and streamed.by_tier is None:
        tiers = {ours: details.get(theirs) for theirs, ours in _SGLANG_TIERS.items()}
        streamed.by_tier = {name: told for name, told in tiers.items() if told is not None}


def _read_foreword(streamed: Streamed, block: Mapping[str, Any]) -> None:
    streamed.ideal_tokens = block.get("ideal_tokens")
    streamed.verdict = block.get("verdict")
    if block.get("cached_tokens") is not None:
        streamed.cached_tokens = block["cached_tokens"]
    if block.get("cached_by_tier"):
        streamed.by_tier = block["cached_by_tier"]
