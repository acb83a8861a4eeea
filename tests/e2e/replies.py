"""What a client of the gateway asks and gets."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TIERS = ("gpu", "ram", "ssd", "redis")
Tokens = Mapping[str, int]

_TOLERANCE = 1e-3
_WORDS = ("ferry", "island", "harbour", "ticket", "dog", "morning", "winter", "storm", "price")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a client got: an answer, or the code of an error. `code` None with no text: no answer
    at all, because the connection broke."""

    prompt: str
    ended: float
    elapsed_s: float
    text: str | None = None
    logprobs: tuple[float, ...] = ()
    block: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None

    @classmethod
    def to(cls, prompt: str, began: float, **found: Any) -> "Reply":
        """What has just come; `began` is when it was asked for."""
        now = time.monotonic()
        return cls(prompt=prompt, ended=now, elapsed_s=now - began, **found)

    @property
    def answered(self) -> bool:
        return self.text is not None

    @property
    def request_id(self) -> str:
        return str(self.block["request_id"])

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return int(self.block["prompt_tokens"])

    @property
    def served(self) -> Tokens:
        """Re-used tokens by tier."""
        return {tier: self.block["cached_by_tier"][tier] for tier in TIERS}

    def is_like(self, cold: "Reply") -> bool:
        """Whether it says what was said when everything was computed."""
        if self.text != cold.text or len(self.logprobs) != len(cold.logprobs):
            return False
        pairs = zip(self.logprobs, cold.logprobs, strict=True)
        return max(abs(one - other) for one, other in pairs) < _TOLERANCE


def new_prompt(words: int) -> str:
    """A text that nobody has sent before."""
    return " ".join([secrets.token_hex(8), *(secrets.choice(_WORDS) for _ in range(words))])
