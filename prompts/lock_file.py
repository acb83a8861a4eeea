"""`prompts.lock`: the lock as text that differs in few lines when little has changed.

JSON, sorted by name and version, one line a segment. Reading is strict: a file that was damaged by
a merge must not pass for one in which nothing is recorded.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from prompts.errors import LockFileError
from prompts.lock import Lock, LockedSegment, LockedTemplate
from prompts.segments import Volatility

SCHEMA_VERSION = 1

T = TypeVar("T")

_LEVELS = {level.label: level for level in Volatility}


def lock_text(lock: Lock) -> str:
    """The file's text."""
    templates = sorted(lock.templates.values(), key=lambda t: (t.name, t.version))
    lines = [
        "{",
        f' "schema_version": {SCHEMA_VERSION},',
        f' "tokenizer": {json.dumps(lock.tokenizer)},',
        *_object("templates", [_template_lines(template) for template in templates], comma=True),
        *_object("retired", [[_pair(*item)] for item in sorted(lock.retired.items())], comma=False),
        "}",
    ]
    return "\n".join(lines) + "\n"


def parse_lock(path: Path, data: bytes) -> Lock:
    """The lock that a file's bytes hold.

    Raises:
        LockFileError: it isn't one, or it is of another version of Foreword.
    """
    try:
        found = json.loads(data, object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        raise LockFileError(path, error.lineno, f"is not valid JSON ({error.msg})") from error
    except (UnicodeDecodeError, _RepeatedKeyError) as error:
        raise LockFileError(path, 1, f"can't be read: {error}") from error
    fields = _Fields(path, found, "the file")
    version = fields.get("schema_version", int)
    if version != SCHEMA_VERSION:
        problem = f"has schema version {version}, this Foreword reads {SCHEMA_VERSION}"
        raise LockFileError(path, 1, problem)
    templates = fields.get("templates", dict)
    retired = fields.get("retired", dict)
    return Lock(
        tokenizer=fields.optional("tokenizer", str),
        templates={
            reference: _template(path, reference, value) for reference, value in templates.items()
        },
        retired={name: _Fields(path, retired, "retired").get(name, str) for name in retired},
    )


def _object(name: str, items: list[list[str]], *, comma: bool) -> list[str]:
    """The lines of a member that is an object; `items` are the lines of its own members."""
    end = "," if comma else ""
    if not items:
        return [f' "{name}": {{}}{end}']
    lines = [f' "{name}": {{']
    for position, item in enumerate(items, start=1):
        *most, last = item
        lines += [*most, last + ("," if position < len(items) else "")]
    return [*lines, f" }}{end}"]


def _pair(key: str, value: str | int | None) -> str:
    return f"  {json.dumps(key)}: {json.dumps(value)}"


def _template_lines(template: LockedTemplate) -> list[str]:
    segments = [f"    {json.dumps(_segment_json(s))}" for s in template.segments]
    return [
        f"  {json.dumps(template.reference)}: {{",
        f" {_pair('fingerprint', template.fingerprint)},",
        f" {_pair('scaffold_tokens', template.scaffold_tokens)},",
        f" {_pair('token_digest', template.token_digest)},",
        f" {_pair('body', template.body)},",
        f" {_pair('tools', template.tools)},",
        '   "segments": [',
        ",\n".join(segments),
        "   ]",
        "  }",
    ]


def _segment_json(segment: LockedSegment) -> dict[str, str | int | None]:
    return {
        "id": segment.id,
        "role": segment.role,
        "volatility": segment.volatility.label,
        "tokens": segment.tokens,
        "digest": segment.digest,
    }


class _RepeatedKeyError(ValueError):
    """One name twice in an object, as a careless merge leaves it."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _RepeatedKeyError(f"{repeated!r} is there twice")
    return found


class _Fields:
    """An object's members, each with the type that it must have."""

    def __init__(self, path: Path, value: object, where: str) -> None:
        self._path = path
        self._where = where
        if not isinstance(value, dict):
            raise LockFileError(path, 1, f"{where} is not an object")
        self._value: Mapping[str, object] = value

    def get(self, name: str, kind: type[T]) -> T:
        value = self._value.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            problem = f"{self._where} has no {name!r} of type {kind.__name__}"
            raise LockFileError(self._path, 1, problem)
        return value

    def optional(self, name: str, kind: type[T]) -> T | None:
        return None if self._value.get(name) is None else self.get(name, kind)


def _template(path: Path, reference: str, value: object) -> LockedTemplate:
    fields = _Fields(path, value, reference)
    name, _, version = reference.rpartition("@")
    if not name or not version.isdecimal():
        raise LockFileError(path, 1, f"{reference!r} is not like name@version")
    return LockedTemplate(
        name=name,
        version=int(version),
        body=fields.get("body", str),
        fingerprint=fields.optional("fingerprint", str),
        segments=tuple(_segment(path, reference, item) for item in fields.get("segments", list)),
        tools=fields.optional("tools", str),
        scaffold_tokens=fields.optional("scaffold_tokens", int),
        token_digest=fields.optional("token_digest", str),
    )


def _segment(path: Path, reference: str, value: object) -> LockedSegment:
    fields = _Fields(path, value, f"a segment of {reference}")
    level = fields.get("volatility", str)
    if level not in _LEVELS:
        raise LockFileError(path, 1, f"{reference} has the unknown volatility {level!r}")
    return LockedSegment(
        id=fields.get("id", str),
        role=fields.optional("role", str),
        volatility=_LEVELS[level],
        digest=fields.get("digest", str),
        tokens=fields.optional("tokens", int),
    )
