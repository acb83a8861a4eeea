"""The values that `foreword render` fills a template with: given ones, and placeholders."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import yaml

from app.commands.tokenizer import CommandInputError
from prompts import Message, PromptDocument, Template, Variable, VariableType, parse_json
from prompts.plain_values import plain_value
from prompts.render import Value

_JSON_TYPES = (
    VariableType.DOCUMENTS,
    VariableType.MESSAGES,
    VariableType.TOOLS,
    VariableType.JSON,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Values for a template, and which of them stand in for values that weren't given."""

    values: Mapping[str, Value]
    placeholders: tuple[str, ...] = ()


def filled(template: Template, given: Mapping[str, object], *, strict: bool) -> Filled:
    """The given values; unless `strict`, placeholders for those that must be there and aren't.

    Raises:
        CommandInputError: a value can't be of its variable's type.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        variable = template.variables.get(name)
        values[name] = value if variable is None else _value(variable, value)
    missing = [
        variable
        for name, variable in template.variables.items()
        if name not in values and not variable.optional and not strict
    ]
    values |= {variable.name: placeholder(variable) for variable in missing}
    return Filled(values=values, placeholders=tuple(variable.name for variable in missing))


def placeholder(variable: Variable) -> Value:
    """Something that can be read as what would be there."""
    shown = f"«{variable.name}»"
    match variable.type:
        case VariableType.TEXT:
            return shown
        case VariableType.INTEGER | VariableType.NUMBER:
            return 0
        case VariableType.DATE:
            return "2000-01-01"
        case VariableType.DOCUMENTS:
            return [PromptDocument(name=shown, text=f"«text of {variable.name}»")]
        case VariableType.MESSAGES:
            return [Message(role="user", content=shown)]
        case VariableType.TOOLS:
            return []
        case VariableType.JSON:
            return {}


def read_values(template: Template, path: Path | None, pairs: Iterable[str]) -> dict[str, object]:
    """Values by name from a file and from `name=value` pairs, which win.

    Raises:
        CommandInputError: the file or a pair can't be used.
    """
    values = {} if path is None else _from_file(path)
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise CommandInputError(f"--var {pair!r} is not like name=value, or name=@file")
        variable = template.variables.get(name)
        kind = VariableType.TEXT if variable is None else variable.type
        values[name] = _from_pair(name, kind, text)
    return values


def _from_file(path: Path) -> dict[str, object]:
    text = _read(path)
    try:
        found = parse_json(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise CommandInputError(f"{path} can't be read: {error}") from error
    if not isinstance(found, dict):
        raise CommandInputError(f"{path} is not a mapping of variables to values")
    return {str(name): value for name, value in found.items()}


def _from_pair(name: str, kind: VariableType, text: str) -> object:
    path = Path(text[1:]) if text.startswith("@") else None
    content = text if path is None else _read(path)
    if path is not None and kind is VariableType.DOCUMENTS and path.suffix != ".json":
        return [{"name": path.name, "text": content}]
    try:
        match kind:
            case VariableType.INTEGER:
                return int(content)
            case VariableType.NUMBER:
                return Decimal(content.strip())
            case _ if kind in _JSON_TYPES:
                return parse_json(content)
    except (ValueError, InvalidOperation) as error:
        form = "JSON" if kind in _JSON_TYPES else "a number"
        raise CommandInputError(f"--var {name}: {kind} must be given as {form}") from error
    return content.strip() if kind is VariableType.DATE else content


def _value(variable: Variable, value: object) -> Value:
    try:
        return plain_value(variable, value)
    except ValueError as error:
        raise CommandInputError(f"{variable.name}: {error}") from error


def _read(path: Path) -> str:
    try:
        # As it is: a line end of a file is part of the value.
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandInputError(f"{path} can't be read: {error}") from error
