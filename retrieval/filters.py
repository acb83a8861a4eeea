"""Filters on the attributes of files, in the shapes of OpenAI's vector stores.

A comparison is `{"type": "eq", "key": "year", "value": 2024}`, several are put together by
`{"type": "and", "filters": […]}` or `"or"`. Parsing checks everything once, so that matching can't
fail.

What holds where the values don't fit: a file that lacks the key, or has a value of another type
under it, is equal to nothing and compares with nothing. So `ne` and `nin` find it, and every other
comparison doesn't. Numbers equal by value (`1` is `1.0`); `true` is no number; texts compare by
code point.

Source: https://platform.openai.com/docs/api-reference/vector-stores/search (`filters`).
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from retrieval.documents import AttributeValue
from retrieval.errors import InvalidFilterError

# A filter is evaluated for each file of a collection: what a request may ask for has an end.
MAX_DEPTH = 8
MAX_COMPARISONS = 256
MAX_VALUES = 1000


class Comparison(StrEnum):
    """How an attribute is compared with a value."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NIN = "nin"


class Combination(StrEnum):
    """How filters are put together."""

    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonFilter:
    """One attribute against a value.

    Attributes:
        values: one for the comparisons with a single value, any number for `in` and `nin`.
    """

    comparison: Comparison
    key: str
    values: tuple[AttributeValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompoundFilter:
    """All of several filters, or at least one of them."""

    combination: Combination
    filters: "tuple[Filter, ...]"


Filter = ComparisonFilter | CompoundFilter

_ORDERED = {Comparison.GT, Comparison.GTE, Comparison.LT, Comparison.LTE}
_SEVERAL = {Comparison.IN, Comparison.NIN}
_ALL_TYPES = ", ".join([*Comparison, *Combination])


def parse_filter(value: Mapping[str, Any]) -> Filter:
    """A filter from its JSON form.

    Raises:
        InvalidFilterError: it isn't one, is nested too deeply or has too many parts; the error
            says where.
    """
    parsed = _parse(value, "filters", depth=1)
    count = _count(parsed)
    if count > MAX_COMPARISONS:
        raise InvalidFilterError(
            "filters", f"it has {count} comparisons, more than {MAX_COMPARISONS}"
        )
    return parsed


def matches(filter: Filter, attributes: Mapping[str, AttributeValue]) -> bool:
    """Whether a file with these attributes is let through."""
    if isinstance(filter, CompoundFilter):
        results = (matches(part, attributes) for part in filter.filters)
        return all(results) if filter.combination is Combination.AND else any(results)
    held = attributes.get(filter.key)
    match filter.comparison:
        case Comparison.EQ | Comparison.IN:
            return _equals_any(held, filter.values)
        case Comparison.NE | Comparison.NIN:
            return not _equals_any(held, filter.values)
        case _:
            return _in_order(filter.comparison, held, filter.values[0])


def may_see(access: Collection[str], groups: Collection[str]) -> bool:
    """Whether a request of these groups finds a file with this access; none: it is everyone's."""
    return not access or any(group in access for group in groups)


def canonical(filter: Filter | None) -> str:
    """Equal texts for equal filters, to remember what a filter has found."""
    if filter is None:
        return ""
    if isinstance(filter, ComparisonFilter):
        return json.dumps([filter.comparison, filter.key, filter.values])
    return json.dumps([filter.combination, [canonical(part) for part in filter.filters]])


def _parse(value: object, path: str, *, depth: int) -> Filter:
    if not isinstance(value, Mapping):
        raise InvalidFilterError(path, f"it is a {_kind(value)}, not an object")
    kind = value.get("type")
    if kind in list(Combination):
        return _compound(value, Combination(kind), path, depth=depth)
    if kind in list(Comparison):
        return _comparison(value, Comparison(kind), path)
    raise InvalidFilterError(f"{path}.type", f"it is {kind!r}, none of {_ALL_TYPES}")


def _compound(
    value: Mapping[str, Any], combination: Combination, path: str, *, depth: int
) -> CompoundFilter:
    _only(value, {"type", "filters"}, path)
    if depth == MAX_DEPTH:
        raise InvalidFilterError(path, f"it is nested more than {MAX_DEPTH} deep")
    parts = value.get("filters")
    if not isinstance(parts, list | tuple) or not parts:
        raise InvalidFilterError(f"{path}.filters", "it must be a list of at least one filter")
    if len(parts) > MAX_COMPARISONS:
        raise InvalidFilterError(
            f"{path}.filters", f"it has {len(parts)} filters, more than {MAX_COMPARISONS}"
        )
    parsed = [
        _parse(part, f"{path}.filters[{number}]", depth=depth + 1)
        for number, part in enumerate(parts)
    ]
    return CompoundFilter(combination=combination, filters=tuple(parsed))


def _comparison(value: Mapping[str, Any], comparison: Comparison, path: str) -> ComparisonFilter:
    _only(value, {"type", "key", "value"}, path)
    key = value.get("key")
    if not isinstance(key, str) or not key:
        raise InvalidFilterError(f"{path}.key", "it must be the name of an attribute")
    if "value" not in value:
        raise InvalidFilterError(f"{path}.value", "it is missing")
    return ComparisonFilter(
        comparison=comparison,
        key=key,
        values=_values(value["value"], comparison, f"{path}.value"),
    )


def _values(value: object, comparison: Comparison, path: str) -> tuple[AttributeValue, ...]:
    if comparison not in _SEVERAL:
        single = _single(value, path)
        if comparison in _ORDERED and isinstance(single, bool):
            raise InvalidFilterError(path, f"{comparison} compares numbers or texts, no booleans")
        return (single,)
    if not isinstance(value, list | tuple):
        raise InvalidFilterError(path, f"{comparison} takes a list, it is a {_kind(value)}")
    if len(value) > MAX_VALUES:
        raise InvalidFilterError(path, f"it has {len(value)} values, more than {MAX_VALUES}")
    return tuple(_single(one, f"{path}[{number}]") for number, one in enumerate(value))


def _single(value: object, path: str) -> AttributeValue:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        number = _float(value)
        if number is not None:
            return number
        raise InvalidFilterError(path, "it is not a finite number")
    raise InvalidFilterError(path, f"it is a {_kind(value)}, not a text, a number or a boolean")


def _float(value: int | float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _only(value: Mapping[str, Any], known: set[str], path: str) -> None:
    unknown = sorted(str(name) for name in value.keys() - known)
    if unknown:
        raise InvalidFilterError(path, f"it has the unknown field {unknown[0]!r}")


def _equals_any(held: AttributeValue | None, values: tuple[AttributeValue, ...]) -> bool:
    return any(_comparable(held, value) and held == value for value in values)


def _in_order(comparison: Comparison, held: AttributeValue | None, value: AttributeValue) -> bool:
    if isinstance(held, str) and isinstance(value, str):
        sign = (held > value) - (held < value)
    elif _is_number(held) and _is_number(value):
        sign = (held > value) - (held < value)  # type: ignore[operator]
    else:
        return False
    match comparison:
        case Comparison.GT:
            return sign > 0
        case Comparison.GTE:
            return sign >= 0
        case Comparison.LT:
            return sign < 0
        case _:
            return sign <= 0


def _comparable(held: AttributeValue | None, value: AttributeValue) -> bool:
    if isinstance(held, bool) or isinstance(value, bool):
        return isinstance(held, bool) and isinstance(value, bool)
    return isinstance(held, str) == isinstance(value, str) and held is not None


def _is_number(value: AttributeValue | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(filter: Filter) -> int:
    if isinstance(filter, ComparisonFilter):
        return 1
    return sum(_count(part) for part in filter.filters)


def _kind(value: object) -> str:
    names = {str: "text", bool: "boolean", int: "number", float: "number", list: "list"}
    return names.get(type(value), "null" if value is None else "object")
