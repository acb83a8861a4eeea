"""All rules in the order of their codes. A code is never used for anything else again."""

from collections.abc import Iterable

from prompts.lint.rule import Rule
from prompts.lint.rules import (
    agent_budgets,
    agent_prompts,
    agents,
    boundaries,
    engine,
    engine_access,
    engine_lmcache,
    engine_reports,
    engine_storage,
    engine_tiers,
    engine_tree,
    faults,
    history,
    ordering,
    retrieved,
    stability,
    text_bytes,
    tools,
    unordered,
)

_FAMILIES = (
    ordering, text_bytes, unordered, stability, boundaries, tools, retrieved, history, engine,
    engine_access, engine_lmcache, engine_reports, engine_storage, engine_tiers, engine_tree,
    agents, agent_prompts, agent_budgets, faults,
)  # fmt: skip

# Code of a removed rule -> why, and since which version.
RETIRED: dict[str, str] = {}

RULES: tuple[Rule, ...] = tuple(
    sorted((made() for family in _FAMILIES for made in family.RULES), key=lambda r: r.code)
)


class UnknownRuleError(LookupError):
    """No rule has that code or name."""

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__(word)

    def __str__(self) -> str:
        return f"there is no rule {self.word!r}; prompts/RULES.md lists all"


def rule(word: str) -> Rule:
    """The rule of that code or name.

    Raises:
        UnknownRuleError: none has it.
    """
    for candidate in RULES:
        if word in (candidate.code, candidate.name):
            return candidate
    raise UnknownRuleError(word)


def unknown_words(words: Iterable[str]) -> list[str]:
    """Those of `select` or `ignore` words that match no rule."""
    return [
        word for word in words if not any(r.code.startswith(word) or r.name == word for r in RULES)
    ]
