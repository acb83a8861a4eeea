"""Lints files of all kinds: what kind each is, its rules, its suppressions."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prompts.agent_file import is_agent_file, parse_agent
from prompts.errors import TemplateError, TemplateSyntaxError, TemplateVolatilityError
from prompts.lint.context import LintContext
from prompts.lint.findings import Finding, Place, Severity
from prompts.lint.includes import find_included
from prompts.lint.jinja_source import JinjaReader, PromptSyntaxError
from prompts.lint.options import LintOptions
from prompts.lint.plain_file import (
    JINJA_SUFFIXES,
    TEXT_SUFFIXES,
    FileLocator,
    Included,
    read_plain,
)
from prompts.lint.prompt_source import PromptSource
from prompts.lint.registry import RULES, rule
from prompts.lint.source_file import SourceFile
from prompts.lint.suppressions import Suppression, apply_suppressions, parse_suppression
from prompts.lint.template_source import template_source
from prompts.lint.text_scan import TextScanner
from prompts.template import Template
from prompts.template_file import parse_template

YAML_SUFFIXES = frozenset({".yaml", ".yml"})
PYTHON_SUFFIXES = frozenset({".py", ".pyi"})
SUFFIXES = YAML_SUFFIXES | PYTHON_SUFFIXES | JINJA_SUFFIXES | TEXT_SUFFIXES

_YAML_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n#]*foreword:[^\r\n]*", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """What a run found, in the order of places; `skipped` are the rules that need a tokenizer."""

    findings: tuple[Finding, ...]
    files: int
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examined:
    """One file's findings before suppression, its suppressions, and its template."""

    findings: list[Finding]
    suppressions: list[Suppression]
    template: Template | None = None


class Linter:
    """Keeps what it scanned: texts that many files share are scanned once."""

    def __init__(self, options: LintOptions, included: Included = find_included) -> None:
        """`included` finds the file that a file includes under a name."""
        self._options = options
        self._reader = JinjaReader()
        self._context = LintContext(options=options, scanner=TextScanner(), included=included)

    def lint(self, sources: Iterable[SourceFile]) -> LintResult:
        """The findings in all files; two files with one template's name are found here."""
        findings: list[Finding] = []
        owners: dict[str, Path] = {}
        files = 0
        for source in sources:
            files += 1
            examined = self._examine(source)
            if examined.template is not None:
                examined.findings.extend(_duplicates(source, examined.template, owners))
            kept = apply_suppressions(examined.findings, examined.suppressions)
            findings += [f for f in kept if self._options.wants(f.code, f.name)]
        return LintResult(findings=_ordered(findings), files=files, skipped=self._skipped())

    def lint_file(self, source: SourceFile) -> tuple[Finding, ...]:
        """The findings in one file."""
        return self.lint([source]).findings

    def _skipped(self) -> tuple[str, ...]:
        if self._options.tokenizer is not None:
            return ()
        needing = (r for r in RULES if r.needs_tokenizer)
        return tuple(r.code for r in needing if self._options.wants(r.code, r.name))

    def _examine(self, source: SourceFile) -> _Examined:
        suffix = source.path.suffix.lower()
        if suffix in PYTHON_SUFFIXES:
            return self._python(source)
        try:
            if suffix in YAML_SUFFIXES:
                return _agent(source) if is_agent_file(source.data) else self._template(source)
            return self._plain(source)
        except UnicodeDecodeError as error:
            return _unreadable(source.place(error.start, error.start + 1), "the file is not UTF-8")
        except PromptSyntaxError as error:
            place = FileLocator(source).place(error.offset, error.offset + 1)
            severity = Severity.WARNING if error.unknown_tag else Severity.ERROR
            return _unreadable(place, str(error), severity)

    def _python(self, source: SourceFile) -> _Examined:
        # Only here: reading prompts needs none of it.
        from prompts.lint.python import lint_python

        return _Examined(findings=list(lint_python(source, self._options)), suppressions=[])

    def _plain(self, source: SourceFile) -> _Examined:
        prompt = read_plain(source, self._reader, self._context.included)
        return _Examined(
            findings=list(self._check(prompt)), suppressions=list(_jinja_suppressions(prompt))
        )

    def _template(self, source: SourceFile) -> _Examined:
        refused: TemplateError | None = None
        try:
            template = parse_template(source.path, source.data)
        except TemplateError as error:
            refused = error
            try:
                template = parse_template(source.path, source.data, checked=False)
            except TemplateError as worse:
                return _Examined(findings=[_parse_finding(source, worse)], suppressions=[])
        prompt = template_source(source, template, self._reader)
        findings = list(self._check(prompt))
        if refused is not None:
            findings += _unsaid(_parse_finding(source, refused), findings)
        suppressions = [*_jinja_suppressions(prompt), *_yaml_suppressions(prompt)]
        return _Examined(findings=findings, suppressions=suppressions, template=template)

    def _check(self, prompt: PromptSource) -> Iterator[Finding]:
        for each in RULES:
            yield from each.check(prompt, self._context)


def _agent(source: SourceFile) -> _Examined:
    """An agent has no text of Jinja's: it is as it should be, or it can't be read."""
    findings: list[Finding] = []
    try:
        parse_agent(source.path, source.data)
    except TemplateError as error:
        findings.append(_parse_finding(source, error))
    return _Examined(findings=findings, suppressions=[])


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda f: (str(f.place.path), f.place.start, f.code)))


def _sentence(problem: str) -> str:
    text = problem[:1].upper() + problem[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _unreadable(place: Place, problem: str, severity: Severity = Severity.ERROR) -> _Examined:
    found = rule("FW901").finding(message=_sentence(problem), place=place, severity=severity)
    return _Examined(findings=[found], suppressions=[])


def _unsaid(refusal: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """What the gateway refuses the template for, unless a finding on that line says it already."""
    said = {f.place.line for f in findings if f.severity is not Severity.NOTE}
    return [] if refusal.place.line in said else [refusal]


def _parse_finding(source: SourceFile, error: TemplateError) -> Finding:
    match error:
        case TemplateVolatilityError():
            message = (
                f"Segment {error.segment} uses {error.variable}, which changes more often than the "
                "segment says; move it to a later segment, or raise the segment's volatility."
            )
            place = _character_place(source, error.line, error.column)
            return rule("FW101").finding(message=message, place=place, severity=Severity.ERROR)
        case TemplateSyntaxError():
            place = _character_place(source, error.line, error.column)
            code = "FW908" if "can't be called" in error.problem else "FW901"
            return rule(code).finding(message=_sentence(error.problem), place=place)
        case _:
            return rule("FW901").finding(message=_sentence(str(error)), place=source.line_place(1))


def _character_place(source: SourceFile, line: int, column: int) -> Place:
    """The place from a column in characters, as parse errors have it, to the line's end."""
    line = min(line, len(source.line_starts))
    before = source.line_text(line)[: column - 1]
    return source.line_place(line, len(before.encode()))


def _duplicates(
    source: SourceFile, template: Template, owners: dict[str, Path]
) -> Iterator[Finding]:
    other = owners.setdefault(template.reference, source.path)
    if other != source.path:
        message = (
            f"{template.reference} is already defined by {other}; give one of them another version."
        )
        yield rule("FW907").finding(message=message, place=source.line_place(1))


def _jinja_suppressions(prompt: PromptSource) -> Iterator[Suppression]:
    for part in prompt.parts:
        for comment in part.jinja.comments if part.jinja else ():
            place = part.locator.place(comment.start, comment.stop)
            line = prompt.source.line_text(place.line).strip()
            written = part.text[comment.start : comment.stop]
            found = parse_suppression(comment.text, place, alone=line == written)
            if found is not None:
                yield found


def _yaml_suppressions(prompt: PromptSource) -> Iterator[Suppression]:
    """Those in YAML comments; in a segment's text, `#` is text."""
    source = prompt.source
    if b"foreword:" not in source.data:
        return
    texts = [part.locator.place(0, len(part.text)) for part in prompt.parts if part.jinja]
    for match in _YAML_COMMENT.finditer(source.text):
        place = source.characters(match.start(), match.end())
        if any(text.start <= place.start < text.stop for text in texts):
            continue
        line = source.line_text(place.line)
        found = parse_suppression(match.group(), place, alone=line.strip() == match.group().strip())
        if found is not None:
            yield found
