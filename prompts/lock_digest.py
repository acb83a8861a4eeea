"""What a template says, as digests that only change when the bytes it can make change.

Comments and the way a Jinja expression is spelled (`{{x}}` or `{{ x }}`) don't count; text,
variables and their declarations, roles and volatilities do.
"""

import json
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

import jinja2.nodes

from prompts.canonical import JSON

_DIGEST_BYTES = 16


def digest(value: JSON) -> str:
    """Hex digest of a JSON value; unlike canonical JSON it keeps every difference of its texts."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def declaration(value: Any) -> JSON:
    """A declaration's fields that take part in comparisons and differ from their defaults.

    Leaving defaults out keeps a digest when a later version of the format adds a field.
    """
    return {
        item.name: _plain(getattr(value, item.name))
        for item in fields(value)
        if item.compare and getattr(value, item.name) != _default(item)
    }


def jinja_form(tree: jinja2.nodes.Template) -> JSON:
    """The syntax tree of Jinja text as plain values, without places and comments."""
    return _node(tree)


def _default(item: Field[Any]) -> Any:
    if item.default_factory is not MISSING:
        return item.default_factory()
    return item.default


def _plain(value: Any) -> JSON:
    match value:
        case Enum():
            return value.name
        case None | bool() | int() | str():
            return value
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case frozenset() | set():
            return [*sorted(str(_plain(item)) for item in value)]
        case tuple() | list():
            return [_plain(item) for item in value]
        case _ if is_dataclass(value):
            return declaration(value)
        case _:
            return repr(value)


def _node(value: Any) -> JSON:
    match value:
        case jinja2.nodes.Node():
            parts: dict[str, JSON] = {name: _field(item) for name, item in value.iter_fields()}
            return {type(value).__name__: parts}
        case _:
            # A constant and its type: 1, 1.0 and True are equal to Python but not in a text.
            return [type(value).__name__, _plain(value)]


def _field(value: Any) -> JSON:
    if isinstance(value, list | tuple):
        return [_node(item) for item in _joined(value)]
    return _node(value)


def _joined(items: Iterable[Any]) -> list[Any]:
    """Nodes with neighbouring pieces of output made one: comments leave seams between them."""
    joined: list[Any] = []
    for item in items:
        before = joined[-1] if joined else None
        match before, item:
            case jinja2.nodes.Output(), jinja2.nodes.Output():
                joined[-1] = jinja2.nodes.Output(_joined([*before.nodes, *item.nodes]))
            case jinja2.nodes.TemplateData(), jinja2.nodes.TemplateData():
                joined[-1] = jinja2.nodes.TemplateData(before.data + item.data)
            case _:
                joined.append(item)
    return joined
