"""`foreword lint`: faults of prompts, templates, Python source and request logs, and their cost."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from app.commands.lint_files import changed_since, read_source, write_source
from app.commands.tokenizer import (
    NO_TOKENIZER_HINT,
    CommandInputError,
    newest_model,
    open_tokenizer,
    tokenizer_options,
)
from app.version import VERSION
from prompts.errors import PromptError
from prompts.lint.config import LintConfig, find_config, read_config
from prompts.lint.discovery import find_files
from prompts.lint.docs import explain
from prompts.lint.findings import Finding, Severity
from prompts.lint.fixing import fix_file
from prompts.lint.github_output import github_output
from prompts.lint.json_output import json_output
from prompts.lint.lazy_tokenizer import LazyTokenizer
from prompts.lint.linter import Linter, LintResult
from prompts.lint.options import CHUNK_SIZE, PAGE_SIZE, LintOptions, TokenCounter
from prompts.lint.registry import UnknownRuleError, rule, unknown_words
from prompts.lint.sarif_output import sarif_output
from prompts.lint.source_file import SourceFile
from prompts.lint.text_output import text_output

_RANKS = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}
_NEVER = "never"

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What was asked for on the command line, and by the configuration file."""

    paths: tuple[Path, ...]
    output: str
    fail_on: str
    fix: bool
    unsafe_fixes: bool
    diff: str | None
    options: LintOptions


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _rule_options(command: Command) -> Command:
    for option in (
        click.option("--select", help="rules to run: codes, prefixes (FW1) or names, by commas"),
        click.option("--ignore", help="rules to leave out"),
        click.option("--page-size", type=click.IntRange(1), help="SGLang's page, in tokens  [64]"),
        click.option(
            "--chunk-size", type=click.IntRange(1), help="LMCache's chunk, in tokens  [256]"
        ),
        click.option(
            "--fail-on",
            type=click.Choice([*(s.value for s in Severity), _NEVER]),
            help="lowest severity that ends with exit code 1  [warning]",
        ),
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False, exists=True),
            help="a pyproject.toml or foreword.toml  [default: the nearest with lint settings]",
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--log", help="diagnose a request log (JSONL, gzip too; - for stdin) instead")
@click.option(
    "--capacity-tokens", type=click.IntRange(1), help="with --log: tokens the engine's cache holds"
)
@click.option("--fix", is_flag=True, help="apply safe fixes")
@click.option("--unsafe-fixes", is_flag=True, help="apply fixes that change what a model reads too")
@click.option("--diff", metavar="REV", help="only findings on lines changed since a Git revision")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
)
@click.option("--explain", "explained", metavar="CODE", help="say all about one rule")
@_rule_options
@tokenizer_options
def lint(
    paths: tuple[Path, ...],
    log: str | None,
    capacity_tokens: int | None,
    explained: str | None,
    tokenizer: Path | None,
    cache: Path,
    **asked: Any,
) -> None:
    """Find what keeps prompts from being re-used, and say what it costs.

    PATHS are files or folders (default: this one): templates, prompt files (.j2 .jinja .jinja2
    .prompt .tmpl .txt .md) and Python source. Exit 1 if anything was found.
    """
    if explained is not None:
        with _writing():
            click.echo(_explanation(explained), nl=False)
        return
    request, folder = _request(paths, tokenizer, asked)
    if request.fix and request.diff is not None:
        raise CommandInputError("--fix changes whole files: leave --diff out")
    if log is not None:
        if paths:
            raise CommandInputError("give either PATHS or --log")
        sys.exit(_lint_log(log, capacity_tokens, request, open_tokenizer(folder, cache)))
    counting = replace(request.options, tokenizer=_lazy(folder, cache))
    result, sources = _lint(replace(request, options=counting))
    _print(result, sources, request.output)
    if result.skipped and request.output == "text":
        skipped = f"; {', '.join(result.skipped)} need one and were skipped"
        click.echo(NO_TOKENIZER_HINT + skipped, err=True)
    sys.exit(_exit_code(result.findings, request.fail_on))


def _explanation(word: str) -> str:
    try:
        return explain(rule(word))
    except UnknownRuleError as error:
        raise CommandInputError(str(error)) from error


def _request(
    paths: tuple[Path, ...], tokenizer: Path | None, asked: dict[str, Any]
) -> tuple[_Request, Path | None]:
    """The request, and the folder of the tokenizer that was named."""
    config = _config(asked["config"])
    options = LintOptions(
        page_size=asked["page_size"] or config.page_size or PAGE_SIZE,
        chunk_size=asked["chunk_size"] or config.chunk_size or CHUNK_SIZE,
        select=_words(asked["select"]) or config.select,
        ignore=_words(asked["ignore"]) or config.ignore,
    )
    for word in unknown_words((*options.select, *options.ignore)):
        raise CommandInputError(str(UnknownRuleError(word)))
    fail_on = asked["fail_on"] or config.fail_on or Severity.WARNING.value
    if fail_on not in (*Severity, _NEVER):
        raise CommandInputError(f"fail-on is one of: {', '.join([*Severity, _NEVER])}")
    request = _Request(
        paths=paths or (Path(),),
        output=asked["output"],
        fail_on=fail_on,
        fix=asked["fix"] or asked["unsafe_fixes"],
        unsafe_fixes=asked["unsafe_fixes"],
        diff=asked["diff"],
        options=options,
    )
    return request, tokenizer or config.tokenizer


def _config(path: Path | None) -> LintConfig:
    try:
        found = path or find_config(Path.cwd())
        return read_config(found) if found else LintConfig()
    except PromptError as error:
        raise CommandInputError(str(error)) from error


def _lazy(folder: Path | None, cache: Path) -> TokenCounter | None:
    """The tokenizer, loaded when a finding needs it; one that was named is looked at now."""
    chosen = folder or newest_model(cache)
    if chosen is None:
        return None

    def load() -> TokenCounter:
        opened = open_tokenizer(chosen, cache)
        assert opened is not None
        return opened

    if folder is not None and not (folder / "tokenizer.json").is_file():
        load()
    return LazyTokenizer(load)


def _lint(request: _Request) -> tuple[LintResult, dict[Path, SourceFile]]:
    linter = Linter(request.options)
    changed = changed_since(request.diff) if request.diff is not None else None
    sources = {path: read_source(path) for path in _files(request.paths)}
    if request.fix:
        sources = {path: _fixed(source, linter, request) for path, source in sources.items()}
    result = linter.lint(sources.values())
    if changed is not None:
        result = replace(result, findings=tuple(f for f in result.findings if changed.holds(f)))
    return result, sources


def _files(paths: Iterable[Path]) -> list[Path]:
    try:
        return list(find_files(paths))
    except FileNotFoundError as error:
        raise CommandInputError(f"{error.filename} isn't there") from error
    except OSError as error:
        raise CommandInputError(f"{error.filename} can't be read: {error.strerror}") from error


def _fixed(source: SourceFile, linter: Linter, request: _Request) -> SourceFile:
    """The file after fixing, written if that changed it."""
    done = fix_file(source, linter.lint_file, unsafe=request.unsafe_fixes)
    if done.source.data != source.data:
        write_source(done.source)
        click.echo(f"fixed {done.fixed} in {source.path}", err=True)
    return done.source


def _print(result: LintResult, sources: dict[Path, SourceFile], output: str) -> None:
    colour = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    with _writing():
        for line in _lines(result, sources, output, colour=colour):
            click.echo(line, color=colour)


@contextmanager
def _writing() -> Iterator[None]:
    """Names what keeps standard output from being written; a reader that left is no fault."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in its buffer would be tried again, and complained of, at exit.
        with suppress(OSError):
            sys.stdout.close()
        raise CommandInputError(f"the output can't be written: {error.strerror}") from error


def _lines(
    result: LintResult, sources: dict[Path, SourceFile], output: str, *, colour: bool
) -> Iterator[str]:
    match output:
        case "json":
            yield json_output(result)
        case "sarif":
            yield sarif_output(result, VERSION)
        case "github":
            yield from github_output(result)
        case _:
            yield from text_output(result, sources, colour=colour)


def _exit_code(findings: Iterable[Finding], fail_on: str) -> int:
    if fail_on == _NEVER:
        return 0
    lowest = _RANKS[Severity(fail_on)]
    return int(any(_RANKS[finding.severity] >= lowest for finding in findings))


def _lint_log(log: str, capacity_tokens: int | None, request: _Request, tokenizer: Any) -> int:
    # Only here: other runs need none of it.
    from cache.errors import CacheError
    from cache.request_log import LogOptions, lint_log, render_text, to_json

    options = LogOptions(
        path=Path(log),
        page_size=request.options.page_size,
        chunk_size=request.options.chunk_size,
        tokenizer=tokenizer,
        capacity_tokens=capacity_tokens,
    )
    try:
        diagnosis = lint_log(options).keeping(lambda f: request.options.wants(f.code, f.name))
    except CacheError as error:
        raise CommandInputError(str(error)) from error
    with _writing():
        match request.output:
            case "json":
                click.echo(json.dumps(to_json(diagnosis), ensure_ascii=False, indent=2))
            case "text":
                click.echo(render_text(diagnosis), nl=False)
            case _:
                result = LintResult(findings=diagnosis.findings, files=1, skipped=())
                for line in _lines(result, {}, request.output, colour=False):
                    click.echo(line)
    return _exit_code(diagnosis.findings, request.fail_on)
