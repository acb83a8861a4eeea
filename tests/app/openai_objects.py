"""Whether what the SDK read is what OpenAI's API promises.

The SDK takes anything; its types, taken strictly, say what is missing or of the wrong kind.
"""

from typing import TypeVar

import openai

Object = TypeVar("Object", bound=openai.BaseModel)


def exact(read: Object) -> Object:
    """The object; all that its type requires is there, every value of its type."""
    type(read).model_validate_json(read.model_dump_json(by_alias=True))
    return read
