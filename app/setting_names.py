"""Names of settings: which there are, which is meant by one that isn't, and where one stands. Pure.

A setting's path is that of its sections and its own name, as in `("engine", "url")`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

PREFIX = "FOREWORD_"
FILE = "foreword.toml"
_SECRET_FILE = "_FILE"
# Read by commands, engines, tier servers and tests; no settings of the gateway.
_OTHERS = frozenset({"API_KEY", "KV_KEY_FILE", "KV_KEY_FOLDER", "STACK_ID", "URL"})
_OTHERS_BEGIN = ("ADAPTER_", "TEST_", "TIER_")
# Of the file: what else reads it.
_OTHER_SECTIONS = frozenset({"lint"})
# What Kubernetes tells every pod of a service called foreword or foreword-…; `…_PORT` has a URL.
_SERVICE_LINK = re.compile(r"(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT_\d+_(TCP|UDP|SCTP)(_.+)?)")
_LONGEST_SHOWN = 200

SettingPath = tuple[str, ...]
Location = tuple[str | int, ...]


def all_settings(
    model: type[BaseModel], path: SettingPath = ()
) -> Iterator[tuple[SettingPath, FieldInfo]]:
    """Each setting, in the order of its section."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from all_settings(kind, (*path, name))
        else:
            yield (*path, name), field


def variable(path: Sequence[str | int]) -> str:
    """The environment variable of a setting or section."""
    return PREFIX + "__".join(str(part) for part in path).upper()


def in_file(path: SettingPath) -> str:
    """The same in `foreword.toml`."""
    *sections, name = path
    return f"`{name}` under [{'.'.join(sections)}]" if sections else f"`{name}`"


def unknown_section(model: type[BaseModel], environment: Mapping[str, str]) -> SettingPath | None:
    """The first `FOREWORD_…__…` of a section that there isn't; nothing else is called so."""
    for name in environment:
        path = _path_of(name)
        if len(path) > 1 and not _is_section(model, path[0]):
            return path
    return None


def unknown_in_file(model: type[BaseModel], table: Mapping[str, object]) -> str | None:
    """The first name at the top of `foreword.toml` that is neither a section nor a setting."""
    known = model.model_fields.keys() | _OTHER_SECTIONS
    return next((name for name in table if name not in known), None)


def strays(model: type[BaseModel], environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence on each `FOREWORD_…` that nothing of Foreword reads; other programs may."""
    for name, value in sorted(environment.items()):
        path = _path_of(name)
        if len(path) != 1 or path[0] in model.model_fields:
            continue
        plain = path[0].upper()
        if plain in _OTHERS or plain.startswith(_OTHERS_BEGIN):
            continue
        if _SERVICE_LINK.fullmatch(plain) or (plain.endswith("PORT") and "://" in value):
            continue
        known = [variable(path).removeprefix(PREFIX) for path, _ in all_settings(model)]
        meant = get_close_matches(plain, (*known, *sorted(_OTHERS)), n=1, cutoff=0.75)
        hint = f"; did you mean {PREFIX}{meant[0]}?" if meant else ""
        yield f"{name} is set and is no setting of Foreword, so nothing reads it{hint}"


def nearest(model: type[BaseModel], path: SettingPath) -> SettingPath | None:
    """The setting or section that is meant by a path that there isn't."""
    section, *rest = path
    if section not in model.model_fields:
        close = get_close_matches(section, model.model_fields, n=1)
        if close and _annotation_at(model, (close[0], *rest)) is not None:
            return (close[0], *rest)
        if close and rest and (key := nearest(model, (close[0], *rest))) is not None:
            return key
        return _namesake(model, path) or (tuple(close) or None)
    *before, name = path
    parent = model_at(model, tuple(before))
    if parent is None:
        return None
    close = get_close_matches(name, parent.model_fields, n=1)
    return (*before, close[0]) if close else _namesake(model, path)


def model_at(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """The section there, also within lists and tables of sections."""
    kind = _annotation_at(model, location)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def not_json(
    model: type[BaseModel], environment: Mapping[str, str]
) -> tuple[SettingPath, str] | None:
    """The first list, table or section whose variable isn't JSON, and how it is written."""
    for name, value in environment.items():
        path = _path_of(name)
        kind = _annotation_at(model, path) if path else None
        if kind is None or name.upper().endswith(_SECRET_FILE) or not _is_json(kind):
            continue
        try:
            json.loads(value)
        except ValueError:
            return path, form_of(kind, value)
    return None


def form(model: type[BaseModel], location: Location, value: object) -> str:
    """How a list or a table is written."""
    return form_of(_annotation_at(model, location), value)


def form_of(kind: object, value: object) -> str:
    """The same by its type."""
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return f"[{form_of(inner, None)}]"
        text = value if isinstance(value, str) else ""
        if not text or "@" in text or len(text) > _LONGEST_SHOWN:  # it may hold a password
            return '["a", "b"]'
        items = [item.strip(" []\"'") for item in text.split(",")]
        return json.dumps([item for item in items if item], ensure_ascii=False)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        names = [n for n, f in kind.model_fields.items() if f.is_required()]
        shown = names or list(kind.model_fields)[:1]
        return "{" + ", ".join(f'"{name}": …' for name in shown) + "}"
    return '{"name": …}'


def place_of(
    environment: Mapping[str, str], table: Mapping[str, object], location: Location
) -> tuple[str, Location]:
    """Where a value was given, in words, and the way to it from there on.

    The environment wins over the file, as it does for the value itself.
    """
    given = {name.upper() for name in environment}
    for end in range(len(location), 0, -1):
        part = location[:end]
        for name in (variable(part), variable(part) + _SECRET_FILE):
            if name in given:
                return name, location[end:]
        names = tuple(each for each in part if isinstance(each, str))
        if len(names) == len(part) and _stands_in(table, names):
            is_section = isinstance(_value_at(table, names), dict)
            shown = f"[{'.'.join(names)}]" if is_section else in_file(names)
            return f"{FILE}, {shown}", location[end:]
    return variable(location), ()


def rest_of(way: Location) -> str:
    """The way to what is wrong within a value: "item 2, `url`: "."""
    words = (f"item {part + 1}" if isinstance(part, int) else f"`{part}`" for part in way)
    return f"{', '.join(words)}: " if way else ""


def _path_of(name: str) -> SettingPath:
    upper = name.upper()
    if not upper.startswith(PREFIX):
        return ()
    return tuple(upper.removeprefix(PREFIX).lower().split("__"))


def _is_section(model: type[BaseModel], name: str) -> bool:
    return model_at(model, (name,)) is not None


def _namesake(model: type[BaseModel], path: SettingPath) -> SettingPath | None:
    """The only setting of that name in another section."""
    if len(path) < 2:
        return None
    found = [known for known, _ in all_settings(model) if known[-1] == path[-1]]
    return found[0] if len(found) == 1 else None


def _annotation_at(model: type[BaseModel], location: Location) -> object | None:
    kind: object = model
    for part in location:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(str(part))
            kind = None if field is None else _without_none(field.annotation)
        elif get_origin(kind) is tuple:
            kind = get_args(kind)[0]
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            return None
    return kind


def _without_none(kind: object) -> object:
    kinds = [each for each in get_args(kind) if each is not type(None)]
    return kinds[0] if type(None) in get_args(kind) and len(kinds) == 1 else kind


def _is_json(kind: object) -> bool:
    return get_origin(kind) in (tuple, dict) or (
        isinstance(kind, type) and issubclass(kind, BaseModel)
    )


def _stands_in(table: Mapping[str, Any], path: SettingPath) -> bool:
    return _value_at(table, path) is not None


def _value_at(table: Mapping[str, Any], path: SettingPath) -> object | None:
    value: object = table
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
