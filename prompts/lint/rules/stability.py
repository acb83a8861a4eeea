"""FW205, 206, 208, 210: values whose text differs between equal requests."""

import re
from collections.abc import Iterator

import jinja2.nodes as n

from prompts.lint.context import LintContext
from prompts.lint.findings import Confidence, Finding, FixSafety, Severity
from prompts.lint.part import Part
from prompts.lint.pieces import Call, Filter, Fork
from prompts.lint.prompt_source import PromptSource
from prompts.lint.rule import Rule, Subject
from prompts.lint.rules.break_rule import BreakRule
from prompts.lint.vocabulary import Kind

_LOCALE_FILTERS = frozenset({
    "format_number", "format_decimal", "format_currency", "format_percent", "format_date",
    "format_datetime", "format_time", "localize", "intcomma", "naturaltime", "numberformat",
    "babel", "currency",
})  # fmt: skip
# Directives of strftime whose words or order come from the locale.
_LOCALE_TIME = re.compile(r"%[-_0^#]*[aAbBcpxXrhEO]")
_SCALAR_NAME = re.compile(r"(?:\w+_)?(?:name|id|text|content|description|title|type)")
_LOCALE_NUMBER = re.compile(r"\{[^{}]*:[^{}]*n\}|%['I][-+0-9.]*[dfg]|%n")


class LocaleOrFloatFormat(Rule):
    """A number or date is written as the machine's locale or a float's rounding has it.

    ## What it does
    Finds `{:n}`, locale filters (`format_number`, `localize`), strftime's locale words (`%x`, `%B`,
    `%p`) and quotients sent without a fixed number of digits.

    ## Why it costs
    `1,234.50` on one machine is `1.234,50` on the next, and a library's new version writes another
    month name: the prefix ends there. A quotient shows up to 17 digits that nobody meant.

    ## Example
    ```jinja
    Refuse orders above {{ '{:n}'.format(limit) }} euros.
    {{ question }}
    ```

    ## Use instead
    ```jinja
    Refuse orders above {{ '%.2f' | format(limit) }} euros.
    {{ question }}
    ```

    ## Fix safety
    No fix: which digits are meant is for you to say.

    ## References
    Python's format specification: `n` uses the current locale.
    """

    code = "FW205"
    name = "locale-or-float-format"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for call in part.facts.calls:
                if not call.nature.constant and _locale_call(call):
                    yield self._locale(part, call.node.lineno)
            for found in part.facts.filters:
                if _locale_filter(found):
                    yield self._locale(part, found.node.lineno)
            for operation in part.facts.operations:
                yield self.finding(
                    message=f"{part.tag_label(operation.lineno)} sends a quotient with all its "
                    "digits; write it with a fixed number of them (`| round(2)`).",
                    place=part.tag_place(operation.lineno),
                    severity=Severity.NOTE,
                    confidence=Confidence.SUSPECTED,
                )

    def _locale(self, part: Part, offset: int) -> Finding:
        return self.finding(
            message=f"{part.tag_label(offset)} depends on the machine's locale; use a format that "
            "doesn't (`'%.2f' | format(x)`, `%Y-%m-%d`).",
            place=part.tag_place(offset),
        )


def _locale_call(call: Call) -> bool:
    method = call.node.node.attr if isinstance(call.node.node, n.Getattr) else ""
    if method == "strftime":
        return any(_LOCALE_TIME.search(text) for text in _constants(call.node.args))
    if method == "format":
        assert isinstance(call.node.node, n.Getattr)
        return any(_LOCALE_NUMBER.search(text) for text in _constants([call.node.node.node]))
    return call.dotted.startswith("locale.") or method in _LOCALE_FILTERS


def _locale_filter(found: Filter) -> bool:
    node = found.node
    if node.name in _LOCALE_FILTERS:
        return True
    if node.name in ("strftime", "date", "datetimeformat", "dateformat"):
        return any(_LOCALE_TIME.search(text) for text in _constants(node.args))
    written = _constants([node.node] if node.node is not None else [])
    return node.name == "format" and any(_LOCALE_NUMBER.search(text) for text in written)


def _constants(nodes: list[n.Expr]) -> list[str]:
    return [x.value for x in nodes if isinstance(x, n.Const) and isinstance(x.value, str)]


class WhitespaceDependsOnValue(Rule):
    """A value decides about nothing but whitespace.

    ## What it does
    Finds conditionals whose branches send only whitespace, other than the line end behind a tag.

    ## Why it costs
    A blank line more or less is invisible to a reader and another prefix to the engine: two callers
    that set the flag differently share nothing behind it.

    ## Example
    ```jinja
    You are a helpful assistant.{% if compact %}{% else %}

    {% endif %}
    Answer in one sentence, and never guess.
    ```

    ## Use instead
    ```jinja
    You are a helpful assistant.

    Answer in one sentence, and never guess.
    ```

    ## Fix safety
    No fix: which of the two is meant is for you to say.

    ## References
    warpfront/hipfire#122 names blank lines among the bytes that cost re-use.
    """

    code = "FW206"
    name = "whitespace-depends-on-value"
    severity = Severity.NOTE
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for at in prompt.located:
            if isinstance(at.piece, Fork) and at.piece.blank:
                yield self.finding(
                    message=f"{at.part.label(at.piece)} only decides about whitespace; send the "
                    "same in both cases.",
                    place=at.part.place(at.piece),
                )


class JsonNotCanonical(Rule):
    """A value is put into the prompt as JSON whose keys aren't sorted.

    ## What it does
    Finds `| tojson` and `json.dumps` without sorted keys. Plain Jinja's `tojson` sorts; the one of
    `transformers` (and so of chat templates) and of other tools doesn't, so that in other people's
    files it is a suspicion.

    ## Why it costs
    The same object from two callers is two texts, and the prefix ends inside it.

    ## Example
    ```jinja
    Configuration: {{ config | tojson }}
    Answer from the configuration only, and name the key you used.
    ```

    ## Use instead
    ```jinja
    Configuration: {{ config | tojson(sort_keys=true) }}
    Answer from the configuration only, and name the key you used.
    ```

    ## Fix safety
    In Python `sort_keys=True` is safe: the value means the same. In Jinja no fix: not every
    `tojson` takes the argument.

    ## References
    `transformers` 5.19 renders chat templates with `json.dumps(..., sort_keys=False)`.
    """

    code = "FW208"
    name = "json-not-canonical"
    severity = Severity.WARNING
    fixes = (FixSafety.SAFE,)
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON, Subject.LOG)

    def check(self, prompt: PromptSource, context: LintContext) -> Iterator[Finding]:
        for part in prompt.parts:
            for found in part.facts.filters:
                if found.node.name in ("tojson", "to_json", "to_nice_json", "jsonify"):
                    yield from self._check(part, found.node, found.nature.constant)
            for call in part.facts.calls:
                if call.dotted in ("json.dumps", "JSON.stringify", "dumps"):
                    yield from self._check(part, call.node, call.nature.constant)

    def _check(self, part: Part, node: n.Filter | n.Call, constant: bool) -> Iterator[Finding]:
        if constant or _sorts_keys(node) or _is_scalar(node):
            return
        yield self.finding(
            message=f"{part.tag_label(node.lineno)} writes JSON in the order in which its keys "
            "were set; sort them.",
            place=part.tag_place(node.lineno),
            confidence=Confidence.SUSPECTED,
        )


def _sorts_keys(node: n.Filter | n.Call) -> bool:
    return any(
        keyword.key == "sort_keys" and getattr(keyword.value, "value", None) is True
        for keyword in node.kwargs
    )


def _is_scalar(node: n.Filter | n.Call) -> bool:
    """Whether the value's name says that it is text or a number, which has no keys."""
    value = node.node if isinstance(node, n.Filter) else None
    name = getattr(value, "attr", "") or getattr(value, "name", "")
    return bool(_SCALAR_NAME.fullmatch(str(name)))


class EnvironmentDependent(BreakRule):
    """The machine's environment is put into the prompt in front of shared text.

    ## What it does
    Finds environment variables, host names, working directories, process and build numbers in
    front of text that is the same everywhere.

    ## Why it costs
    Each machine and each release makes a prefix of its own: replicas share nothing through LMCache,
    and a roll-out starts with a cold cache.

    ## Example
    ```jinja
    Build {{ env("BUILD") }} on {{ hostname }}.
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Use instead
    ```jinja
    You are the support assistant of a bicycle shop. Answer briefly, and only from the manual.
    ```

    ## Fix safety
    No fix: say such things in metadata, or at the end.

    ## References
    agentscope/QwenPaw#6953: environment text between the tools.
    """

    code = "FW210"
    name = "environment-dependent"
    severity = Severity.WARNING
    subjects = (Subject.TEMPLATE, Subject.PROMPT_FILE, Subject.PYTHON)
    causes = (Kind.ENVIRONMENT,)
    said = "depends on the machine and stands before text that is the same everywhere"
    advice = "leave it out, or move it to the end"


RULES: tuple[type[Rule], ...] = (
    LocaleOrFloatFormat,
    WhitespaceDependsOnValue,
    JsonNotCanonical,
    EnvironmentDependent,
)
