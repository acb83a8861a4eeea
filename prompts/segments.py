"""The values of prompt building: volatility, segments, messages, prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b

_DIGEST_BYTES = 16


class Volatility(IntEnum):
    """How often a segment's bytes change; a smaller value changes less often."""

    STATIC = 0
    TENANT = 1
    COLLECTION = 2
    SESSION = 3
    TURN = 4

    @property
    def label(self) -> str:
        """The word used in template files."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message; `content` is text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptDocument:
    """A document, or a passage of one, as a prompt shows it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedSegment:
    """A segment with its variables filled in.

    `message` is the index of the message that the text belongs to.
    """

    id: str
    role: str
    volatility: Volatility
    text: str
    message: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One rendered template: what is sent, before the model's chat template wraps it."""

    template: str
    segments: tuple[RenderedSegment, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """Neighbouring segments of one message, joined."""
        count = self.segments[-1].message + 1 if self.segments else 0
        parts: list[list[RenderedSegment]] = [[] for _ in range(count)]
        for segment in self.segments:
            parts[segment.message].append(segment)
        return tuple(
            Message(role=part[0].role, content="".join(s.text for s in part)) for part in parts
        )

    @property
    def scaffold(self) -> tuple[RenderedSegment, ...]:
        """The leading static segments."""
        leading: list[RenderedSegment] = []
        for segment in self.segments:
            if segment.volatility is not Volatility.STATIC:
                break
            leading.append(segment)
        return tuple(leading)

    @property
    def fingerprint(self) -> str:
        """Hex digest of the scaffold's roles and bytes: equal fingerprints, equal scaffold."""
        digest = blake2b(digest_size=_DIGEST_BYTES)
        for segment in self.scaffold:
            text = segment.text.encode()
            digest.update(f"{segment.message}\0{segment.role}\0{len(text)}\0".encode())
            digest.update(text)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTokens:
    """Where a segment lies in the prompt's token ids: `start <= i < stop`.

    A token that straddles a seam belongs to the segment it starts in.
    """

    segment: RenderedSegment
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedPrompt:
    """A prompt with the token ids that the engine will see."""

    prompt: Prompt
    token_ids: tuple[int, ...]
    ranges: tuple[SegmentTokens, ...]


def token_digest(token_ids: Sequence[int]) -> str:
    """Hex digest of token ids; beside the fingerprint, one for each tokenizer."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for token_id in token_ids:
        digest.update(token_id.to_bytes(4, "little"))
    return digest.hexdigest()
