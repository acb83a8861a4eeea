"""One canonical byte form for text and JSON: equal values give equal bytes, in any process.

Text: Unicode NFC, line feeds only, no byte-order mark. JSON: sorted keys, no spaces, no escapes
that need not be, no NaN or infinity. Both are idempotent.
"""

import json
import unicodedata
from typing import TypeAlias

_BYTE_ORDER_MARK = "\ufeff"

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"


def canonical_text(text: str) -> str:
    """The text in NFC with LF line ends and without a leading byte-order mark.

    Raises:
        ValueError: the text holds a lone surrogate, which no UTF-8 can spell.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")
    text = unicodedata.normalize("NFC", text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds a lone surrogate at character {error.start}") from error
    return text


def canonical_json(value: JSON) -> str:
    """The one spelling of a JSON value; keys and strings are canonical text.

    Raises:
        ValueError: NaN or infinity, a lone surrogate, or two keys that become one in NFC.
    """
    return json.dumps(
        _canonical(value),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )


def _canonical(value: JSON) -> JSON:
    match value:
        case str():
            return canonical_text(value)
        case list():
            return [_canonical(item) for item in value]
        case dict():
            pairs = {canonical_text(key): _canonical(item) for key, item in value.items()}
            if len(pairs) < len(value):
                raise ValueError("has two keys that are the same text in Unicode NFC")
            return pairs
        case _:
            return value
