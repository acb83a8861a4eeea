"""Which folder of templates a command reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.commands.tokenizer import CommandInputError
from prompts import PromptError, TemplateLibrary, load_templates, shipped_templates

_HERE = Path("prompts/templates")

Command = TypeVar("Command", bound=Callable[..., Any])


def templates_option(command: Command) -> Command:
    """The option `templates`, as `open_library` takes it."""
    return click.option(
        "--templates",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help=f"folder of template files  [default: {_HERE} if it is here, else Foreword's own]",
    )(command)


def open_library(folder: Path | None) -> TemplateLibrary:
    """The templates of a folder.

    Raises:
        CommandInputError: there are none, or one is at fault.
    """
    chosen = folder or (_HERE if _HERE.is_dir() else shipped_templates())
    try:
        library = load_templates(chosen)
    except PromptError as error:
        raise CommandInputError(str(error)) from error
    if not any(True for _ in library):
        raise CommandInputError(f"{chosen} holds no template files (*.yaml)")
    return library
