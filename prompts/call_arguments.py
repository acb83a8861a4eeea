"""The arguments of a model's call as chat templates and engines take them: a JSON object.

Models write what they write. SGLang refuses a conversation in which a call has other arguments,
so that nobody could go on after such a call; whoever renders them here needn't.
"""

from typing import Any

import orjson

# Templates and JSON writers walk values recursively.
_MOST_NESTED = 128


def arguments_object(text: str) -> dict[str, Any] | None:
    """The object that arguments are; no text is one without any. None: they are no object."""
    if not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    # No value is nested deeper than its text has brackets.
    brackets = text.count("{") + text.count("[")
    if not isinstance(value, dict) or (brackets > _MOST_NESTED and _is_too_deep(value)):
        return None
    return value


def wrapped_arguments(text: str) -> dict[str, Any]:
    """An object in place of arguments that are none, which says what was written."""
    return {"arguments": text}


def engine_arguments(text: str) -> str:
    """Arguments as an engine takes them that renders the call itself."""
    given = arguments_object(text)
    if given is None:
        return orjson.dumps(wrapped_arguments(text)).decode()
    return text if text.strip() else "{}"


def _is_too_deep(value: dict[str, Any]) -> bool:
    level: list[Any] = [value]
    for _ in range(_MOST_NESTED):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
