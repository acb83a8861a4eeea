"""Attributes of files as people write them on a command line: `year=2024`, `year>=2020`."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

AttributeValue = str | float | bool

# Longer signs first, so that `>=` isn't read as `>` and a value that begins with `=`.
_CONDITION = re.compile(r"([^=!<>]+)(!=|>=|<=|=|>|<)(.*)", re.DOTALL)
_COMPARISONS = {"=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def attributes_of(pairs: Sequence[str]) -> dict[str, AttributeValue]:
    """The attributes of several `key=value`.

    Raises:
        click.BadParameter: one has no key or no `=`, or a key comes twice.
    """
    found: dict[str, AttributeValue] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not key.strip() or not sign:
            raise click.BadParameter(f"{pair!r} is not like key=value", param_hint="--attribute")
        if key.strip() in found:
            problem = f"{key.strip()!r} is given twice"
            raise click.BadParameter(problem, param_hint="--attribute")
        found[key.strip()] = value_of(value)
    return found


def filter_of(conditions: Sequence[str]) -> Mapping[str, Any] | None:
    """OpenAI's filter that all of the conditions hold; None without any.

    Raises:
        click.BadParameter: one is neither like `year>=2020` nor a JSON object.
    """
    filters = [_condition(text) for text in conditions]
    match filters:
        case []:
            return None
        case [alone]:
            return alone
    return {"type": "and", "filters": filters}


def value_of(text: str) -> AttributeValue:
    """A number or a truth value where it is spelled like one, else the text. `"7"` is a text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text.strip()
    return value if isinstance(value, str | int | float | bool) else text.strip()


def _condition(text: str) -> Mapping[str, Any]:
    if text.lstrip().startswith("{"):
        return _json(text)
    match = _CONDITION.fullmatch(text)
    if match is None or not match[1].strip():
        problem = f"{text!r} is neither like year>=2020 nor a JSON object"
        raise click.BadParameter(problem, param_hint="--filter")
    key, sign, value = match.groups()
    return {"type": _COMPARISONS[sign], "key": key.strip(), "value": value_of(value)}


def _json(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--filter") from error
    assert isinstance(value, dict)
    return value
