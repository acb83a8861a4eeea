"""The index of rules within `docs/troubleshooting.md`, from the rules' own documentation."""

from prompts.lint.docs import title
from prompts.lint.registry import RULES

_BEGIN = "<!-- made by `python -m app.references` from here -->\n"
_END = "<!-- to here -->\n"


def with_rule_index(page: str) -> str:
    """The page with its index as the rules are now.

    Raises:
        ValueError: the page lacks the comments between which the index stands.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {_BEGIN!r} and {_END!r}")
    return f"{before}{begin}\n{_index()}\n{end}{after}"


def _index() -> str:
    rows = "\n".join(
        f"| [{rule.code}](../prompts/RULES.md#{rule.code.lower()}-{rule.name}) "
        f"| {rule.name} | {title(rule)} | {rule.severity} |"
        for rule in RULES
    )
    return f"| code | name | what it finds | severity |\n|---|---|---|---|\n{rows}\n"
