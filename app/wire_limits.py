"""Types of fields that several of OpenAI's objects have, with the limits that OpenAI documents.

Source: https://platform.openai.com/docs/api-reference (metadata and attributes of vector stores).
"""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints


def without_nul(text: str) -> str:
    """The text; a NUL is no character that a database keeps."""
    if "\x00" in text:
        raise ValueError("has a NUL character, which can't be stored; take it out")
    return text


_Key = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(without_nul)]
_Text = Annotated[str, StringConstraints(max_length=512), AfterValidator(without_nul)]
_Number = Annotated[float, Field(allow_inf_nan=False)]

Metadata = Annotated[dict[_Key, _Text], Field(max_length=16)]
"""At most 16 pairs of texts."""

Attributes = Annotated[dict[_Key, bool | _Number | _Text], Field(max_length=16)]
"""At most 16 pairs; what files are filtered by."""

Group = Annotated[str, StringConstraints(min_length=1, max_length=255), AfterValidator(without_nul)]
"""Who may see a file."""
