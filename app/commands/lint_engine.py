"""`foreword lint --engine-config`: reads the files and has them judged together."""

import sys
from dataclasses import replace
from pathlib import Path

from app.commands.lint_files import read_source
from app.commands.tokenizer import CommandInputError
from cache.engine_config import ConfigKind, covered, lint_configs
from cache.errors import CacheError
from prompts.lint.linter import LintResult
from prompts.lint.options import LintOptions
from prompts.lint.source_file import SourceFile

_STDIN = "-"


def lint_engine_configs(
    files: tuple[str, ...], kind: str | None, options: LintOptions
) -> tuple[LintResult, dict[Path, SourceFile]]:
    """The findings in the files of one deployment, and the files with their secrets covered.

    Raises:
        CommandInputError: a file can't be read, or is no configuration that is known.
    """
    sources = {Path(file): _source(file) for file in files}
    try:
        chosen = ConfigKind(kind) if kind is not None else None
        result = lint_configs(sources.values(), chosen)
        shown = {path: covered(source, chosen) for path, source in sources.items()}
    except CacheError as error:
        raise CommandInputError(str(error)) from error
    wanted = tuple(f for f in result.findings if options.wants(f.code, f.name))
    return replace(result, findings=wanted), shown


def _source(file: str) -> SourceFile:
    if file == _STDIN:
        return SourceFile(Path(file), sys.stdin.buffer.read())
    return read_source(Path(file))
