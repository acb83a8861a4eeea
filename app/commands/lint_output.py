"""How `foreword lint` shows what it found, and the exit code that this means."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from app.commands.tokenizer import CommandInputError
from app.version import VERSION
from prompts.lint.findings import Finding, Severity
from prompts.lint.github_output import github_output
from prompts.lint.json_output import json_output
from prompts.lint.linter import LintResult
from prompts.lint.sarif_output import sarif_output
from prompts.lint.source_file import SourceFile
from prompts.lint.text_output import text_output

NEVER = "never"
_RANKS = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}


def show(result: LintResult, sources: dict[Path, SourceFile], output: str) -> None:
    """Print what was found in one of the formats."""
    colour = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    with writing():
        for line in output_lines(result, sources, output, colour=colour):
            click.echo(line, color=colour)


@contextmanager
def writing() -> Iterator[None]:
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


def output_lines(
    result: LintResult, sources: dict[Path, SourceFile], output: str, *, colour: bool
) -> Iterator[str]:
    """What to print, by lines."""
    match output:
        case "json":
            yield json_output(result)
        case "sarif":
            yield sarif_output(result, VERSION)
        case "github":
            yield from github_output(result)
        case _:
            yield from text_output(result, sources, colour=colour)


def exit_code(findings: Iterable[Finding], fail_on: str) -> int:
    """1 if a finding is as severe as `fail_on` says, or more."""
    if fail_on == NEVER:
        return 0
    lowest = _RANKS[Severity(fail_on)]
    return int(any(_RANKS[finding.severity] >= lowest for finding in findings))
