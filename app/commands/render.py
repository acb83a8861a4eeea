"""`foreword render TEMPLATE`: a prompt, segment by segment, as it would be sent."""

import os
from pathlib import Path

import click

from app.commands.render_values import filled, read_values
from app.commands.render_view import View, json_view, text_view
from app.commands.templates_option import open_library, templates_option
from app.commands.token_text import token_text
from app.commands.tokenizer import (
    NO_TOKENIZER_HINT,
    CommandInputError,
    open_tokenizer,
    tokenizer_options,
)
from prompts import Prompt, PromptError, PromptTokenizer, Template, TokenizedPrompt, parse_template
from prompts import render as render_prompt
from prompts.errors import ChatTemplateError


@click.command()
@click.argument("template")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="or NAME=@FILE")
@click.option(
    "--vars",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="values from a JSON or YAML file",
)
@click.option("--strict", is_flag=True, help="a missing value is an error, not a placeholder")
@click.option("--tokens", is_flag=True, help="show each token's place, id and text")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@tokenizer_options
@templates_option
def render(
    *,
    template: str,
    pairs: tuple[str, ...],
    path: Path | None,
    strict: bool,
    tokens: bool,
    output: str,
    tokenizer: Path | None,
    cache: Path,
    templates: Path | None,
) -> None:
    """Show the prompt that TEMPLATE makes: NAME, NAME@VERSION, or a template file.

    Each segment comes with its role, its volatility and the tokens it takes, in a colour that says
    how often its bytes change. Values that aren't given are shown as placeholders.
    """
    found = _find(template, templates)
    values = filled(found, read_values(found, path, pairs), strict=strict)
    try:
        prompt = render_prompt(found, values.values)
    except PromptError as error:
        raise CommandInputError(str(error)) from error
    opened = open_tokenizer(tokenizer, cache)
    if opened is None and tokens:
        raise CommandInputError(NO_TOKENIZER_HINT)
    tokenized = _tokenized(opened, prompt)
    texts = None
    if tokens and opened is not None and tokenized is not None:
        texts = [token_text(opened, token_id) for token_id in tokenized.token_ids]
    view = View(
        prompt=prompt, tokenized=tokenized, token_texts=texts, placeholders=values.placeholders
    )
    shown = json_view(view) if output == "json" else text_view(view)
    click.echo(shown, color=False if os.environ.get("NO_COLOR") else None)
    if values.placeholders:
        names = ", ".join(values.placeholders)
        click.echo(f"placeholders stand for: {names} (give --var NAME=VALUE)", err=True)


def _find(template: str, folder: Path | None) -> Template:
    path = Path(template)
    try:
        if path.suffix in (".yaml", ".yml") and path.is_file():
            return parse_template(path, path.read_bytes())
        return open_library(folder).find(template)
    except PromptError as error:
        raise CommandInputError(str(error)) from error


def _tokenized(tokenizer: PromptTokenizer | None, prompt: Prompt) -> TokenizedPrompt | None:
    if tokenizer is None:
        click.echo(NO_TOKENIZER_HINT, err=True)
        return None
    try:
        return tokenizer.tokenize(prompt)
    except ChatTemplateError as error:
        click.echo(f"no token counts: {error}", err=True)
        return None
