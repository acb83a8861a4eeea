"""One canonical byte form for text and JSON: equal values give equal bytes, in any process.

Text: Unicode NFC, line feeds only, no byte-order mark in front. JSON: sorted keys, no spaces, no
escapes that need not be, one spelling for each number, no NaN or infinity. Both are idempotent.
`docs/canonical-bytes.md` lists what is changed and how to switch it off.
"""

import json
import math
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import TypeAlias

_BYTE_ORDER_MARK = "\ufeff"
_DEEPEST = 100
# Up to here every whole number is a float of its own, so a whole float is that whole number.
_WHOLE_FLOATS = 2**53
# Positions of the decimal point between which digits are written out (ECMAScript's rule).
_PLAIN_FROM, _PLAIN_TO = -6, 21

JSON: TypeAlias = "bool | int | float | Decimal | str | list[JSON] | dict[str, JSON] | None"


def canonical_text(text: str) -> str:
    """The text in NFC with LF line ends and without byte-order marks in front.

    Raises:
        ValueError: the text holds a lone surrogate, which no UTF-8 can spell.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text
    return check_text(unicodedata.normalize("NFC", text.lstrip(_BYTE_ORDER_MARK)))


def is_canonical(text: str) -> bool:
    """Whether a text is known to be canonical at a glance; False says nothing."""
    return text.isascii() and "\r" not in text


def check_text(text: str) -> str:
    """The text as it is.

    Raises:
        ValueError: it holds a lone surrogate, which no UTF-8 can spell.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds a lone surrogate at character {error.start}") from error
    return text


def canonical_json(value: object) -> str:
    """The one spelling of a JSON value; keys and strings are canonical text.

    Raises:
        ValueError: NaN or infinity, a lone surrogate, two keys that become one in NFC, something
            that is no JSON value.
    """
    return spell_json(canonical_value(value))


def canonical_value(value: object) -> JSON:
    """A JSON value with sorted keys and canonical text: to go through it is to go in order.

    Raises:
        ValueError: as `canonical_json`.
    """
    return _canonical(value, 0)


def parse_json(text: str) -> JSON:
    """The value of a JSON text, every digit of its numbers kept.

    Raises:
        ValueError: not JSON, NaN or infinity, or a key given twice.
    """
    try:
        value: JSON = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_float=Decimal,
            parse_constant=_no_constant,
        )
    except RecursionError as error:
        raise ValueError(f"is nested deeper than {_DEEPEST} levels") from error
    return value


def spell_number(value: float | Decimal) -> str:
    """The one spelling of a number, whatever its type.

    Integers keep every digit. Other numbers have the fewest digits that read back the same; whole
    ones up to 2**53 are written as integers, so that `1`, `1.0` and `1e0` are one.

    Raises:
        ValueError: NaN or infinity, or an integer of more than 4,300 digits.
    """
    if isinstance(value, int):
        return str(int(value))
    if _finite(value) == 0:
        return "0"
    # repr of a float has the fewest digits that read back as it, on every platform.
    return _spell_decimal(value if isinstance(value, Decimal) else Decimal(float.__repr__(value)))


def _finite(value: float | Decimal) -> float | Decimal:
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        raise ValueError(f"holds {value}, which JSON can't spell")
    return value


def _spell_decimal(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    shown = text.rstrip("0")
    point = len(text) + exponent
    minus = "-" if sign else ""
    whole = point >= len(shown)
    if whole and point <= _PLAIN_TO and value.copy_abs() <= _WHOLE_FLOATS:
        return minus + shown + "0" * (point - len(shown))
    if not whole and _PLAIN_FROM < point <= 0:
        return f"{minus}0.{'0' * -point}{shown}"
    if not whole and 0 < point <= _PLAIN_TO:
        return f"{minus}{shown[:point]}.{shown[point:]}"
    fraction = f".{shown[1:]}" if len(shown) > 1 else ""
    return f"{minus}{shown[0]}{fraction}e{point - 1}"


def _canonical(value: object, depth: int) -> JSON:
    # Most values are texts and mappings of exactly these types.
    if type(value) is str:
        return canonical_text(value)
    if type(value) is dict:
        return _canonical_mapping(value, depth + 1)
    match value:
        case None | bool() | int():
            return value
        case float() | Decimal():
            return _finite(value)
        case str():
            return canonical_text(value)
        case list() | tuple():
            _check_depth(depth + 1)
            return [_canonical(item, depth + 1) for item in value]
        case Mapping():
            return _canonical_mapping(value, depth + 1)
    raise ValueError(f"holds a {type(value).__name__}, which is no JSON value")


def _canonical_mapping(value: Mapping[object, object], depth: int) -> dict[str, JSON]:
    _check_depth(depth)
    pairs: dict[str, JSON] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise ValueError(f"has the key {key!r}; JSON's keys are text")
        pairs[canonical_text(key)] = _canonical(item, depth)
    if len(pairs) < len(value):
        raise ValueError("has two keys that are the same text in Unicode NFC")
    return {key: pairs[key] for key in sorted(pairs)}


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"is nested deeper than {_DEEPEST} levels")


def spell_json(value: JSON) -> str:
    """The text of a value that is canonical already."""
    if type(value) is str:
        return encode_basestring(value)
    if type(value) is dict:
        pairs = [f"{encode_basestring(key)}:{spell_json(item)}" for key, item in value.items()]
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join([spell_json(item) for item in value])}]"
    return _spell_other(value)


def _spell_other(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return spell_number(value)
    return encode_basestring(str(value))


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"has the key {twice!r} twice; keep one of them")
    return mapping


def _no_constant(word: str) -> JSON:
    raise ValueError(f"holds {word}, which is no JSON number")
