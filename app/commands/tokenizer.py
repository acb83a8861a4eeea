"""Which tokenizer a command counts with: a model folder, by default the one `foreword up` made."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.stack.paths import CachePaths, resolve
from prompts import PromptError, PromptTokenizer, load_tokenizer

NO_TOKENIZER_HINT = (
    "no token counts: no model is here; give --tokenizer FOLDER (with tokenizer.json and a chat "
    "template), or let `foreword up` make the default model"
)

Command = TypeVar("Command", bound=Callable[..., Any])


class CommandInputError(click.ClickException):
    """What was asked can't be done; one sentence for people."""

    exit_code = 2


def tokenizer_options(command: Command) -> Command:
    """The options `tokenizer` and `cache`, as `open_tokenizer` takes them."""
    command = click.option(
        "--cache",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="FOREWORD_CACHE",
        default=Path("~/.cache/foreword"),
        show_default=True,
        help="where `foreword up` keeps the models that it made",
    )(command)
    return click.option(
        "--tokenizer",
        type=click.Path(path_type=Path, file_okay=False),
        help="a model folder to count tokens with  [default: the newest in the cache]",
    )(command)


def open_tokenizer(folder: Path | None, cache: Path) -> PromptTokenizer | None:
    """The tokenizer of a model folder, or of the newest one in the cache; None if there is none.

    Raises:
        CommandInputError: the folder that was asked for can't be used.
    """
    chosen = folder or newest_model(cache)
    if chosen is None:
        return None
    try:
        return load_tokenizer(resolve(chosen))
    except PromptError as error:
        raise CommandInputError(str(error)) from error


def newest_model(cache: Path) -> Path | None:
    """The folder of the model that `foreword up` made last, if there is one that can be read."""
    models = CachePaths(resolve(cache)).models
    try:
        made = sorted(models.glob("*.json"), key=lambda path: (path.stat().st_mtime, path.name))
        folders = [models / _named_folder(index) for index in made]
        whole = [folder for folder in folders if (folder / "tokenizer.json").is_file()]
    except OSError:
        return None
    return whole[-1] if whole else None


def _named_folder(index: Path) -> str:
    """The folder that an index of `app.stack.model` names; of a damaged one, none that exists."""
    try:
        facts = json.loads(index.read_bytes())
    except ValueError:
        return index.stem
    return str(facts.get("folder")) if isinstance(facts, dict) else index.stem
