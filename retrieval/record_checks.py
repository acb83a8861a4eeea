"""What clients may write on collections and files: OpenAI's limits, and access groups. Pure."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from retrieval.documents import AttributeValue
from retrieval.errors import InvalidCollectionError

MAX_PAIRS = 16
MAX_KEY_CHARS = 64
MAX_VALUE_CHARS = 512
MAX_GROUPS = 64
MAX_NAME_CHARS = 1024
MAX_EXPIRY_DAYS = 365
MODES = ("auto", "rag", "cag", "hybrid")


def checked_name(name: str) -> str:
    """Raises InvalidCollectionError."""
    if len(name) > MAX_NAME_CHARS:
        raise InvalidCollectionError(
            "name", f"it has {len(name):,} characters, {MAX_NAME_CHARS:,} are the most"
        )
    return _checked_text("name", name)


def checked_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Raises InvalidCollectionError: a key or value isn't one of OpenAI's metadata."""
    _check_keys("metadata", metadata)
    checked = {}
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise InvalidCollectionError(f"metadata[{key!r}]", "its value is not a string")
        checked[key] = _checked_value(f"metadata[{key!r}]", value)
    return checked


def checked_attributes(attributes: Mapping[str, Any]) -> dict[str, AttributeValue]:
    """Raises InvalidCollectionError: a key or value isn't one that filters can look at."""
    _check_keys("attributes", attributes)
    return {key: _checked_attribute(key, value) for key, value in attributes.items()}


def checked_access(access: Iterable[str]) -> tuple[str, ...]:
    """Group names, sorted, each once. Raises InvalidCollectionError."""
    if isinstance(access, str):
        raise InvalidCollectionError("access", "it is a string where a list of groups belongs")
    groups = sorted(set(access))
    if len(groups) > MAX_GROUPS:
        raise InvalidCollectionError(
            "access", f"it names {len(groups)} groups, {MAX_GROUPS} are the most"
        )
    for group in groups:
        if not group.strip():
            raise InvalidCollectionError("access", "it has a group without a name")
        _checked_value("access", group)
    return tuple(groups)


def checked_expiry(days: int | None) -> int | None:
    """Raises InvalidCollectionError."""
    if days is not None and not 1 <= days <= MAX_EXPIRY_DAYS:
        raise InvalidCollectionError(
            "expires_after.days", f"it is {days}, and must be 1 to {MAX_EXPIRY_DAYS}"
        )
    return days


def checked_mode(mode: str | None) -> str | None:
    """Raises InvalidCollectionError."""
    if mode is not None and mode not in MODES:
        raise InvalidCollectionError("mode", f"it is {mode!r}, and must be {', '.join(MODES)}")
    return mode


def _check_keys(field: str, pairs: Mapping[str, Any]) -> None:
    if len(pairs) > MAX_PAIRS:
        raise InvalidCollectionError(field, f"it has {len(pairs)} pairs, {MAX_PAIRS} are the most")
    for key in pairs:
        if not 1 <= len(key) <= MAX_KEY_CHARS:
            raise InvalidCollectionError(
                field, f"the key {key[:80]!r} must have 1 to {MAX_KEY_CHARS} characters"
            )
        _checked_text(field, key)


def _checked_attribute(key: str, value: object) -> AttributeValue:
    where = f"attributes[{key!r}]"
    if isinstance(value, str):
        return _checked_value(where, value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    raise InvalidCollectionError(where, "its value is no string, finite number or boolean")


def _checked_value(where: str, value: str) -> str:
    if len(value) > MAX_VALUE_CHARS:
        raise InvalidCollectionError(
            where, f"it has {len(value):,} characters, {MAX_VALUE_CHARS} are the most"
        )
    return _checked_text(where, value)


def _checked_text(where: str, text: str) -> str:
    """PostgreSQL stores neither NUL nor half a surrogate pair."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidCollectionError(where, "it has a character that is no text")
    return text
