"""What a diagnosis says; values only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prompts.lint.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that holds no request; lines count from 1."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRates:
    """Tokens re-used by an unbounded cache, out of all prompt tokens: as sent and repaired.

    Repairing may lengthen prompts (a history is kept, a tool list is complete), so each rate has
    its own prompt tokens.
    """

    prompt_tokens: int
    cached_tokens: int
    repaired_prompt_tokens: int
    repaired_cached_tokens: int

    @property
    def ideal(self) -> float | None:
        """Hit rate of the log as it was sent; None without a token."""
        return _rate(self.cached_tokens, self.prompt_tokens)

    @property
    def repaired(self) -> float | None:
        """Hit rate once the findings are fixed, by replaying the repaired requests."""
        return _rate(self.repaired_cached_tokens, self.repaired_prompt_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReport:
    """One template: `label` is its opening words, `diverges_at` its first token that differs."""

    label: str
    requests: int
    conversations: int
    first_line: int
    diverges_at: int | None
    rates: HitRates
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Hit rate with room for `capacity_tokens`, least recently used pages evicted first."""

    capacity_tokens: int
    hit_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What the engine itself reported, for the requests whose usage is in the log."""

    requests: int
    prompt_tokens: int
    cached_tokens: int

    @property
    def hit_rate(self) -> float | None:
        """As the engine counted; None where it reported nothing."""
        return _rate(self.cached_tokens, self.prompt_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A whole log. Without a tokenizer (`exact` false) all tokens are estimates from bytes.

    `tools_not_shown`: so many requests carry tools, of which the chat template shows none.
    """

    path: Path
    exact: bool
    page_size: int
    requests: int
    bad_lines: int
    bad_examples: tuple[BadLine, ...]
    refused_by_chat_template: int
    tools_not_shown: int
    rates: HitRates
    reported: Reported
    groups: tuple[GroupReport, ...]
    curve: tuple[CurvePoint, ...]
    findings: tuple[Finding, ...]

    def keeping(self, wanted: Callable[[Finding], bool]) -> "Diagnosis":
        """With the wanted findings only; rates after the fix are still those of all."""
        groups = tuple(
            replace(group, findings=tuple(filter(wanted, group.findings))) for group in self.groups
        )
        return replace(self, groups=groups, findings=tuple(filter(wanted, self.findings)))


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def sums(values: Sequence[int], requests: Sequence[int]) -> int:
    """The values of some requests, added up."""
    return sum([values[request] for request in requests])
