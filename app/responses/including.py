"""What a query asks for beyond the usual, of responses and of conversations' items."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.responses.refusals import INCLUDES, check_includes


class Included(BaseModel):
    """The SDK spells the list `include[]`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    include: list[str] = []
    sdk_include: Annotated[list[str], Field(alias="include[]")] = []

    @property
    def included(self) -> tuple[str, ...]:
        """What is named."""
        return (*self.include, *self.sdk_include)

    @property
    def results(self) -> bool:
        """Whether to tell what searches found.

        Raises:
            InvalidRequestError: something is named that isn't served.
        """
        check_includes(self.included)
        return INCLUDES[0] in self.included
