"""Bounds on the shape of JSON: what a few megabytes could make of memory, and of recursion.

A list takes three bytes as text and sixty in memory, and whatever walks nested values recursively
ends at Python's own limit, in the middle of its work.
"""

import orjson

from app.errors import InvalidRequestError
from app.settings import WireSettings

# Smaller ones can do no harm before they are looked at.
_SMALL_BYTES = 2**16
# A text may hold as many brackets as its author likes; nobody's has one in every eight bytes.
_BYTES_A_BRACKET = 8


def loads(raw: bytes | bytearray, limits: WireSettings) -> object:
    """The value of a JSON text.

    Raises:
        InvalidRequestError: not JSON, too deep, or of too many lists and objects.
    """
    if not raw:
        raise InvalidRequestError("the body is empty; send a JSON object")
    brackets = raw.count(b"[") + raw.count(b"{")
    if len(raw) > _SMALL_BYTES:
        _check_brackets(raw, brackets, limits.json_containers)
    try:
        given: object = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(_not_json(raw, error)) from error
    # No value is deeper, or of more containers, than its text has brackets.
    if brackets > min(limits.json_depth, limits.json_containers):
        check_shape(given, limits)
    return given


def check_shape(given: object, limits: WireSettings) -> None:
    """Refuse a value that is too deep, or made of too many lists and objects.

    Raises:
        InvalidRequestError: says which.
    """
    level = [given] if isinstance(given, dict | list) else []
    depth = containers = 0
    while level:
        depth += 1
        containers += len(level)
        if depth > limits.json_depth:
            raise InvalidRequestError(
                f"the body has more than {limits.json_depth} lists and objects in each other"
            )
        if containers > limits.json_containers:
            raise _too_many(limits.json_containers)
        # No subclasses come out of JSON.
        level = [
            value
            for container in level
            for value in (container.values() if type(container) is dict else container)
            if type(value) is dict or type(value) is list
        ]


def _not_json(raw: bytes | bytearray, error: orjson.JSONDecodeError) -> str:
    try:
        raw.decode()
    except UnicodeDecodeError as broken:
        byte = f"the byte 0x{raw[broken.start]:02x} at place {broken.start}"
        return f"the body is not UTF-8: {byte} is part of no character; encode it as UTF-8"
    return f"the body is not JSON: {error}"


def _check_brackets(raw: bytes | bytearray, brackets: int, most: int) -> None:
    if brackets > most and brackets * _BYTES_A_BRACKET > len(raw):
        raise _too_many(most)


def _too_many(most: int) -> InvalidRequestError:
    return InvalidRequestError(f"the body has more than {most:,} lists and objects")
