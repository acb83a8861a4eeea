"""Request bodies: bytes to typed values, with OpenAI's errors."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.errors import InvalidRequestError
from app.json_guard import loads
from app.services import services_of

Body = TypeVar("Body", bound=BaseModel)


async def parse_body(request: Request, kind: type[Body]) -> Body:
    """The JSON body as `kind`.

    Raises:
        InvalidRequestError: not JSON, too deep, or not of that shape; names the field.
    """
    raw = await request.body()
    return checked_body(loads(raw, services_of(request).settings.wire), kind)


def checked_body(given: object, kind: type[Body]) -> Body:
    """A value from JSON as `kind`.

    Raises:
        InvalidRequestError: not of that shape; names the field.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _invalid(error, given) from error


def invalid(first: Mapping[str, Any]) -> InvalidRequestError:
    """A complaint of pydantic's about a body, query or path, as one sentence."""
    loc = [part for part in first["loc"] if part not in ("body", "query", "path")]
    if first["type"] == "json_invalid":
        return InvalidRequestError(f"the body is not JSON: {first['ctx']['error']}")
    return _sentence(first, ".".join(map(str, loc)) or None)


def _invalid(error: ValidationError, given: object) -> InvalidRequestError:
    """The first complaint as one sentence."""
    first = error.errors(include_url=False)[0]
    is_missing = first["type"] == "missing"
    param = ".".join(str(part) for part in _place(first["loc"], given, is_missing)) or None
    return _sentence(first, param)


def _sentence(first: Mapping[str, Any], param: str | None) -> InvalidRequestError:
    if param is None and first["type"] in ("missing", "model_type", "model_attributes_type"):
        return InvalidRequestError("the body must be a JSON object; send it as application/json")
    match first["type"]:
        case "extra_forbidden":
            problem = "there is no such field here"
        case "missing":
            problem = "is missing"
        case _:
            problem = first["msg"].removeprefix("Value error, ")
    place = f"{param}: " if param else ""
    return InvalidRequestError(f"{place}{problem}", param=param)


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
