"""The prefix flame as a value: which openings served prompts had, and how much was re-used."""

from dataclasses import dataclass

OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlameNode:
    """A stretch of tokens that prompts had in common, and what followed it.

    Attributes:
        label: what it is, such as a segment's id; "" where nobody said, and `OTHER` for smaller
            pieces put together (of no length).
        tokens: its length in tokens.
        requests: prompts that went through it, or into it.
        served_tokens: tokens of those prompts within it, its children not counted, and what
            followed their last whole page.
        cached_tokens: those of `known_tokens` that were re-used; None where nothing is known.
        known_tokens: those of `served_tokens` whose re-use the engine reported.
        start: place of its first token in the prompts, from 0.
        children: what followed it, most served first.
    """

    label: str
    tokens: int
    requests: int
    served_tokens: int
    cached_tokens: int | None
    known_tokens: int = 0
    start: int = 0
    children: tuple["FlameNode", ...] = ()
