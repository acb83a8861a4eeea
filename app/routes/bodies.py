"""Request bodies: bytes to typed values, with OpenAI's errors."""

from collections.abc import Iterator
from typing import TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.errors import InvalidRequestError

Body = TypeVar("Body", bound=BaseModel)


async def parse_body(request: Request, kind: type[Body]) -> Body:
    """The JSON body as `kind`.

    Raises:
        InvalidRequestError: not JSON, or not of that shape; names the field.
    """
    raw = await request.body()
    try:
        given = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from error
    return checked_body(given, kind)


def checked_body(given: object, kind: type[Body]) -> Body:
    """A value from JSON as `kind`.

    Raises:
        InvalidRequestError: not of that shape; names the field.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _invalid(error, given) from error


def _invalid(error: ValidationError, given: object) -> InvalidRequestError:
    """The first complaint as one sentence."""
    first = error.errors(include_url=False)[0]
    is_missing = first["type"] == "missing"
    param = ".".join(str(part) for part in _place(first["loc"], given, is_missing)) or None
    place = f"{param}: " if param else ""
    return InvalidRequestError(f"{place}{first['msg']}", param=param)


def _place(loc: tuple[int | str, ...], given: object, is_missing: bool) -> Iterator[int | str]:
    """Where in the body, without the names of our own types that pydantic puts in between."""
    at = given
    for number, part in enumerate(loc, start=1):
        match at, part:
            case dict(), str() if part in at:
                at = at[part]
                yield part
            case list(), int() if part < len(at):
                at = at[part]
                yield part
            case _ if is_missing and number == len(loc):
                yield part
