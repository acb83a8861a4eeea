"""The rules' documentation: `RULES.md` and `--explain`, both made from the rules' docstrings."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
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
    "8": "Agents",
    "9": "Templates and suppressions",
}
_BLOCK = re.compile(r"^```(\w+)(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_JSON = json.JSONDecoder()
_OPTION = re.compile(r"([a-z-]+)=(\d+)")
_FILE = re.compile(r"^# file: (\S+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A code block of a rule's documentation; `faulty` says that the rule has to find it.

    Blocks of `json` are the bodies of a log's requests. `options` stand behind the language
    (`page-size=8`); `times` says how often the requests are sent, one after the other.
    """

    language: str
    text: str
    faulty: bool
    options: Mapping[str, int]

    @property
    def files(self) -> tuple[tuple[str | None, str], ...]:
        """Name and text of each file; without a line `# file: NAME`, one without a name."""
        first, *others = _FILE.split(self.text)
        named = tuple(zip(others[::2], others[1::2], strict=True))
        return named or ((None, first),)

    @property
    def requests(self) -> tuple[bytes, ...]:
        """The lines of the log that a block of `json` stands for."""
        bodies, position = [], 0
        while position < len(self.text.rstrip()):
            body, position = _JSON.raw_decode(self.text, position)
            bodies.append(json.dumps(body).encode())
            position += len(self.text[position:]) - len(self.text[position:].lstrip())
        return tuple(bodies) * self.options.get("times", 1)


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
            language, info, text = block.groups()
            options = {name: int(value) for name, value in _OPTION.findall(info)}
            faulty = heading == "Example"
            yield Example(language=language, text=text, faulty=faulty, options=options)


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
