"""Every `foreword` command in the pages exists, with the options that it is given, run or not."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from app.cli import main
from tests.docs.blocks import PAGES, RUNNABLE, blocks, named
from tests.docs.markdown import code

# A namespace may be called so, too (`kubectl -n foreword`).
_COMMAND = re.compile(r"(?:^|(?<=[\s/($|]))(?<!-n )foreword ([a-z][^|#&;)`]*)")


def commands(line: str) -> Iterator[list[str]]:
    """The words behind each `foreword` of a line."""
    for found in _COMMAND.finditer(line):
        yield found[1].split()


def problem_of(words: list[str]) -> str | None:
    """What is wrong with a command line; None: nothing. Values are not looked at."""
    command: click.Command = main
    context = click.Context(main, info_name="foreword")
    rest = iter(words)
    while isinstance(command, click.Group):
        name = next(rest, None)
        if name is None or name.startswith("-"):
            break
        found = command.get_command(context, name)
        if found is None:
            return f"{context.command_path} has no command {name!r}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    options = {"--help", "-h"}.union(*(p.opts + p.secondary_opts for p in command.params))
    for word in rest:
        if word == "--":
            break
        option = word.partition("=")[0].rstrip("],.")
        if option.startswith("--") and option not in options:
            return f"{context.command_path} has no option {option}"
    return None


def _joined(text: str) -> str:
    return text.replace("\\\n", " ")


def _lines(page: Path) -> Iterator[str]:
    for block in blocks(page):
        if block.language in RUNNABLE - {"python"}:
            yield from _joined(block.text).splitlines()
        elif block.language == "yaml":  # steps of a workflow
            yield from (line.partition("run: ")[2] for line in block.text.splitlines())
    for word in code(page):
        if word.text.startswith("foreword "):
            yield word.text


@pytest.mark.parametrize("page", [p for p in PAGES if p.is_file()], ids=named)
def test_commands_and_options_exist(page: Path) -> None:
    problems = [
        f"{page.name}: {problem} (foreword {' '.join(words)})"
        for line in _lines(page)
        for words in commands(line)
        if (problem := problem_of(words)) is not None
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("foreword lint --fix", True),
        ("$ .venv/bin/foreword lint --format json prompts/ # all of them", True),
        ("docker compose exec gateway foreword keys create acme --role admin", True),
        ("zcat old.gz | foreword lint --log -", True),
        ("foreword bench compare A B -- --no-such-option-here 3", True),
        ("foreword lint --mend", False),
        ("foreword bench race", False),
        ("foreword polish", False),
        ("X=$(foreword keys create ops --rank admin)", False),
    ],
)
def test_what_is_no_command_is_found(line: str, *, right: bool) -> None:
    assert all(problem_of(words) is None for words in commands(line)) is right
