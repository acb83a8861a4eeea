"""Lints files of all kinds: what kind each is, its rules, its suppressions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prompts.agent import Agent
from prompts.agent_file import is_agent_file, parse_agent
from prompts.errors import TemplateError, TemplateSyntaxError, TemplateVolatilityError
from prompts.lint.agent_folder import agent_folders
from prompts.lint.comments import agent_suppressions, jinja_suppressions, template_suppressions
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
from prompts.lint.suppressions import Suppression, apply_suppressions
from prompts.lint.template_source import template_source
from prompts.lint.text_scan import TextScanner
from prompts.template import Template
from prompts.template_file import parse_template

YAML_SUFFIXES = frozenset({".yaml", ".yml"})
PYTHON_SUFFIXES = frozenset({".py", ".pyi"})
SUFFIXES = YAML_SUFFIXES | PYTHON_SUFFIXES | JINJA_SUFFIXES | TEXT_SUFFIXES


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """What a run found, in the order of places; `skipped` are the rules that need a tokenizer."""

    findings: tuple[Finding, ...]
    files: int
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examined:
    """One file's findings before suppression, its suppressions, and its template or agent."""

    findings: list[Finding]
    suppressions: list[Suppression]
    template: Template | None = None
    agent: Agent | None = None
    is_agent: bool = False


class Linter:
    """Keeps what it scanned: texts that many files share are scanned once."""

    def __init__(self, options: LintOptions, included: Included = find_included) -> None:
        """`included` finds the file that a file includes under a name."""
        self._options = options
        self._reader = JinjaReader()
        self._context = LintContext(options=options, scanner=TextScanner(), included=included)

    def lint(self, sources: Iterable[SourceFile]) -> LintResult:
        """The findings in all files; what is wrong between files is found here."""
        examined: list[tuple[SourceFile, _Examined]] = []
        owners: dict[str, Path] = {}
        for source in sources:
            one = self._examine(source)
            if one.template is not None:
                one.findings.extend(_duplicates(source, one.template, owners))
            examined.append((source, one))
        self._between(examined)
        findings: list[Finding] = []
        for _, one in examined:
            kept = apply_suppressions(one.findings, one.suppressions)
            findings += [f for f in kept if self._options.wants(f.code, f.name)]
        return LintResult(findings=_ordered(findings), files=len(examined), skipped=self._skipped())

    def _between(self, examined: list[tuple[SourceFile, _Examined]]) -> None:
        """Adds what is wrong between agents, in each file that says so."""
        files = [(source, one.agent) for source, one in examined if one.is_agent]
        if not files:
            return
        by_path = {source.path: one for source, one in examined}
        templates = [one.template for _, one in examined if one.template is not None]
        for folder in agent_folders(files, templates):
            for each in RULES:
                for finding in each.check_agents(folder):
                    by_path[finding.place.path].findings.append(finding)

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
            findings=list(self._check(prompt)), suppressions=list(jinja_suppressions(prompt))
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
        suppressions = [*jinja_suppressions(prompt), *template_suppressions(prompt)]
        return _Examined(findings=findings, suppressions=suppressions, template=template)

    def _check(self, prompt: PromptSource) -> Iterator[Finding]:
        for each in RULES:
            yield from each.check(prompt, self._context)


def _agent(source: SourceFile) -> _Examined:
    """An agent has no text of Jinja's: it can be read or not. The rest is between files."""
    try:
        agent = parse_agent(source.path, source.data)
    except TemplateError as error:
        found = _parse_finding(source, error)
        return _Examined(findings=[found], suppressions=[], is_agent=True)
    suppressions = list(agent_suppressions(source))
    return _Examined(findings=[], suppressions=suppressions, agent=agent, is_agent=True)


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
            place = source.character_place(error.line, error.column)
            return rule("FW101").finding(message=message, place=place, severity=Severity.ERROR)
        case TemplateSyntaxError():
            place = source.character_place(error.line, error.column)
            code = "FW908" if "can't be called" in error.problem else "FW901"
            return rule(code).finding(message=_sentence(error.problem), place=place)
        case _:
            return rule("FW901").finding(message=_sentence(str(error)), place=source.line_place(1))


def _duplicates(
    source: SourceFile, template: Template, owners: dict[str, Path]
) -> Iterator[Finding]:
    other = owners.setdefault(template.reference, source.path)
    if other != source.path:
        message = (
            f"{template.reference} is already defined by {other}; give one of them another version."
        )
        yield rule("FW907").finding(message=message, place=source.line_place(1))
