"""`foreword lint`: faults of prompts, Python source, request logs and engines, and their cost."""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from app.commands.lint_files import changed_since, read_source, write_source
from app.commands.lint_output import NEVER, exit_code, output_lines, show, writing
from app.commands.tokenizer import (
    NO_TOKENIZER_HINT,
    CommandInputError,
    newest_model,
    open_tokenizer,
    tokenizer_options,
)
from prompts.errors import PromptError
from prompts.lint.config import LintConfig, find_config, read_config
from prompts.lint.discovery import find_files
from prompts.lint.docs import explain
from prompts.lint.findings import Severity
from prompts.lint.fixing import fix_file
from prompts.lint.lazy_tokenizer import LazyTokenizer
from prompts.lint.linter import Linter, LintResult
from prompts.lint.options import CHUNK_SIZE, PAGE_SIZE, LintOptions, TokenCounter
from prompts.lint.registry import UnknownRuleError, rule, unknown_words
from prompts.lint.source_file import SourceFile

ENGINE_CONFIG_KINDS = (
    "server-info", "command", "compose", "kubernetes", "redis", "lmcache", "sglang",
)  # fmt: skip
"""`cache.engine_config.ConfigKind`, which is imported only when it is needed."""


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
            type=click.Choice([*(s.value for s in Severity), NEVER]),
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
    "--engine-config",
    "engine_configs",
    multiple=True,
    metavar="FILE",
    help="judge how SGLang, LMCache and Redis are started instead (- for stdin; may be repeated)",
)
@click.option(
    "--engine-config-kind",
    type=click.Choice(ENGINE_CONFIG_KINDS),
    help="what such a file is  [default: told by its content]",
)
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
    engine_configs: tuple[str, ...],
    engine_config_kind: str | None,
    capacity_tokens: int | None,
    explained: str | None,
    tokenizer: Path | None,
    cache: Path,
    **asked: Any,
) -> None:
    """Find what keeps prompts from being re-used, and say what it costs.

    PATHS are files or folders (default: this one): templates, agents, prompt files (.j2 .jinja
    .jinja2 .prompt .tmpl .txt .md) and Python source. Exit 1 if anything was found.
    """
    if explained is not None:
        with writing():
            click.echo(_explanation(explained), nl=False)
        return
    request, folder = _request(paths, tokenizer, asked)
    if request.fix and request.diff is not None:
        raise CommandInputError("--fix changes whole files: leave --diff out")
    if sum((bool(paths), log is not None, bool(engine_configs))) > 1:
        raise CommandInputError("give one of PATHS, --log and --engine-config")
    if engine_configs:
        sys.exit(_lint_engine_configs(engine_configs, engine_config_kind, request))
    if log is not None:
        sys.exit(_lint_log(log, capacity_tokens, request, open_tokenizer(folder, cache)))
    counting = replace(request.options, tokenizer=_lazy(folder, cache))
    result, sources = _lint(replace(request, options=counting))
    show(result, sources, request.output)
    if result.skipped and request.output == "text":
        skipped = f"; {', '.join(result.skipped)} need one and were skipped"
        click.echo(NO_TOKENIZER_HINT + skipped, err=True)
    sys.exit(exit_code(result.findings, request.fail_on))


def _lint_engine_configs(files: tuple[str, ...], kind: str | None, request: _Request) -> int:
    if request.fix:
        raise CommandInputError("there are no fixes for --engine-config: leave --fix out")
    # Only here: other runs need none of it.
    from app.commands.lint_engine import lint_engine_configs

    result, sources = lint_engine_configs(files, kind, request.options)
    result = _changed(result, request)
    show(result, sources, request.output)
    return exit_code(result.findings, request.fail_on)


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
    if fail_on not in (*Severity, NEVER):
        raise CommandInputError(f"fail-on is one of: {', '.join([*Severity, NEVER])}")
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
    sources = {path: read_source(path) for path in _files(request.paths)}
    if request.fix:
        sources = {path: _fixed(source, linter, request) for path, source in sources.items()}
    return _changed(linter.lint(sources.values()), request), sources


def _changed(result: LintResult, request: _Request) -> LintResult:
    """The findings on changed lines, where only those are asked for."""
    if request.diff is None:
        return result
    changed = changed_since(request.diff)
    return replace(result, findings=tuple(f for f in result.findings if changed.holds(f)))


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
    with writing():
        match request.output:
            case "json":
                click.echo(json.dumps(to_json(diagnosis), ensure_ascii=False, indent=2))
            case "text":
                click.echo(render_text(diagnosis), nl=False)
            case _:
                result = LintResult(findings=diagnosis.findings, files=1, skipped=())
                for line in output_lines(result, {}, request.output, colour=False):
                    click.echo(line)
    return exit_code(diagnosis.findings, request.fail_on)
