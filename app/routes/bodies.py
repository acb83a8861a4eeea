"""Request bodies: bytes to typed values, with OpenAI's errors."""

from collections.abc import Iterator, Mapping, Sequence
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
    """The complaint about the innermost value that is at fault, as one sentence.

    Where a value may be of several kinds, pydantic complains once for each of them.
    """
    places = [
        (tuple(_place(each["loc"], given, each["type"] == "missing")), each)
        for each in error.errors(include_url=False)
    ]
    place, first = max(places, key=lambda each: len(each[0]))  # the first of them
    kinds = [_KINDS.get(each["type"]) for at, each in places if at == place]
    param = ".".join(map(str, place)) or None
    if param is None or None in kinds:
        return _sentence(first, param)
    named = [kind for kind in dict.fromkeys(kinds) if kind is not None]
    return InvalidRequestError(f"{param}: must be {_either(named)}", param=param)


# What a value must be, by what pydantic calls one that isn't.
_KINDS: Mapping[str, str] = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_type": "a text",
}


def _either(kinds: Sequence[str]) -> str:
    *others, last = kinds
    return f"{', '.join(others)} or {last}" if others else last


def _sentence(first: Mapping[str, Any], param: str | None) -> InvalidRequestError:
    if param is None and first["type"] in ("missing", "model_type", "model_attributes_type"):
        return InvalidRequestError("the body must be a JSON object; send it as application/json")
    match first["type"]:
        case "extra_forbidden":
            problem = "there is no such field here"
        case "missing":
            problem = "is missing"
        case "union_tag_invalid":
            context = first["ctx"]
            problem = f"there is no {context['tag']!r} here; give {context['expected_tags']}"
        case "union_tag_not_found":
            problem = f"{first['ctx']['discriminator'].strip(chr(39))} is missing"
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
