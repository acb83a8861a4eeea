"""`docs/cli.md`: every command with its arguments and options, from click's own declarations."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from app.cli import main

_HEAD = """\
# Command line

Made by `python -m app.references`; don't edit. Results go to stdout, all else to stderr. Exit
status: 0 good, 1 findings or failures, 2 bad usage or configuration, 3 no gateway answers or the
stack could not start. Each command explains itself with `--help`.

"""
# `\\b` alone on a line keeps click from filling the paragraph: an example, or a list.
_AS_IT_IS = "\b"
_ROFF = re.compile(r"\s+")


def command_line_page() -> str:
    """The whole page."""
    context = click.Context(main, info_name="foreword")
    parts = [
        part for _, command, inner in _commands(main, context) for part in _part(command, inner)
    ]
    return _HEAD + "\n".join(parts).rstrip("\n") + "\n"


def _commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Commands that do something; a group stands before its own."""
    if not isinstance(command, click.Group) or command is not main:
        yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(found, click.Context(found, info_name=name, parent=context))


def _part(command: click.Command, context: click.Context) -> Iterator[str]:
    level = "#" * (len(context.command_path.split()))
    yield f"{level} {context.command_path}\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {pieces}\n```\n"
    yield from _help(command.help or "")
    rows = [row for parameter in command.params for row in _row(parameter, context)]
    if rows:
        yield "| option | default | meaning |\n|---|---|---|"
        yield "\n".join(rows) + "\n"


def _help(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text).partition("\f")[0]):
        first, _, rest = paragraph.partition("\n")
        if first.strip() == _AS_IT_IS:
            yield f"```text\n{rest}\n```\n"
        elif paragraph.strip():
            yield _cell(paragraph, table=False) + "\n"


def _row(parameter: click.Parameter, context: click.Context) -> Iterator[str]:
    if not isinstance(parameter, click.Option) or parameter.hidden:
        return
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    kind = "" if parameter.is_flag or parameter.count else f" {_cell(_kind(parameter, context))}"
    meaning = _cell(parameter.help or "")
    more = []
    if parameter.required:
        more.append("required")
    if parameter.multiple:
        more.append("may be given several times")
    if parameter.envvar:
        more.append(f"`{parameter.envvar}`")
    if more:
        meaning = f"{meaning} ({'; '.join(more)})" if meaning else "; ".join(more)
    yield f"| {names}{kind} | {_default(parameter)} | {meaning} |"


def _kind(option: click.Option, context: click.Context) -> str:
    return option.make_metavar(context).strip("[]<>")


def _default(option: click.Option) -> str:
    value: Any = option.to_info_dict().get("default")
    match value:
        case None | False | () | []:
            return ""
        case True:
            return "on"
        case str() | int() | float() | Path():
            return f"`{value}`"
        case tuple() | list():
            return f"`{', '.join(str(item) for item in value)}`"
        case _:  # worked out when the command runs
            return ""


def _cell(text: str, *, table: bool = True) -> str:
    line = _ROFF.sub(" ", text).strip()
    line = line.replace("<", "&lt;")
    return line.replace("|", "\\|") if table else line
