"""Request bodies: bytes to typed values, with OpenAI's errors."""

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
        return kind.model_validate(orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from error
    except ValidationError as error:
        raise invalid(error) from error


def invalid(error: ValidationError) -> InvalidRequestError:
    """The first complaint as one sentence."""
    first = error.errors(include_url=False)[0]
    param = ".".join(str(part) for part in first["loc"]) or None
    place = f"{param}: " if param else ""
    return InvalidRequestError(f"{place}{first['msg']}", param=param)
