"""The rules' documentation: `RULES.md` and `--explain`, both made from the rules' docstrings."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from prompts.lint.registry import RULES
from prompts.lint.rule import Rule
from prompts.lint.visible import visible

HEADINGS = (
    "What it does",
    "Why it costs",
    "Example",
    "Use instead",
    "Fix safety",
    "References",
)
_FAMILIES = {
    "1": "Order",
    "2": "Bytes",
    "3": "Tokens and pages",
    "4": "Tools",
    "5": "Context",
    "6": "Transcripts",
    "7": "Engine and tiers",
    "9": "Templates and suppressions",
}
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A code block of a rule's documentation; `faulty` says that the rule has to find it."""

    language: str
    text: str
    faulty: bool


def title(rule: Rule) -> str:
    """The first sentence of a rule's documentation."""
    return _documentation(rule).partition("\n\n")[0].replace("\n", " ")


def sections(rule: Rule) -> dict[str, str]:
    """Heading -> text."""
    parts = re.split(r"^## (.+)$", _documentation(rule), flags=re.MULTILINE)
    return {head: text.strip() for head, text in zip(parts[1::2], parts[2::2], strict=True)}


def examples(rule: Rule) -> Iterator[Example]:
    """The code blocks under *Example* and *Use instead*."""
    texts = sections(rule)
    for heading in ("Example", "Use instead"):
        for block in _BLOCK.finditer(texts[heading]):
            yield Example(language=block.group(1), text=block.group(2), faulty=heading == "Example")


def explain(rule: Rule) -> str:
    """All that there is to say of one rule, for people."""
    lines = [f"# {rule.code} {rule.name}", "", title(rule), "", _facts(rule)]
    for heading, text in sections(rule).items():
        lines += ["", f"## {heading}", "", _shown(text)]
    return "\n".join(lines) + "\n"


def rules_page() -> str:
    """`RULES.md`: a table of all rules, then each."""
    lines = [
        "# Rules of `foreword lint`",
        "",
        "Made from the rules' own documentation by `python -m prompts.lint.docs`; don't edit.",
        "",
    ]
    for digit, family in _FAMILIES.items():
        lines += [f"## FW{digit}xx: {family}", "", "| code | name | what | severity | fix |"]
        lines.append("|---|---|---|---|---|")
        members = [rule for rule in RULES if rule.code[2] == digit]
        lines += [_row(rule) for rule in members] + [""]
    for rule in RULES:
        lines.append(explain(rule).replace("\n## ", "\n### ").replace("# FW", "## FW", 1))
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(rule: Rule) -> str:
    fixes = ", ".join(rule.fixes) or "none"
    link = f"[{rule.code}](#{rule.code.lower()}-{rule.name})"
    return f"| {link} | {rule.name} | {title(rule)} | {rule.severity} | {fixes} |"


def _facts(rule: Rule) -> str:
    needs = "; needs a tokenizer" if rule.needs_tokenizer else ""
    return f"Severity: {rule.severity}. Found in: {', '.join(rule.subjects)}{needs}."


def _shown(text: str) -> str:
    return "\n".join(
        visible(line) if not line.endswith("  ") else line for line in text.split("\n")
    )


def _documentation(rule: Rule) -> str:
    return inspect.cleandoc(type(rule).__doc__ or "")


if __name__ == "__main__":
    import sys

    sys.stdout.write(rules_page())
