"""What clients send to the routes of conversations.

Source: OpenAI's Conversations reference, as of the `openai` SDK in requirements.lock; `foreword` is
our own.
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.stored.records import Compaction
from app.wire_limits import Metadata

MOST_ITEMS = 20
_Share = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CompactionOptions(_Body):
    """When a conversation is summed up, as shares of the model's window."""

    at: Annotated[_Share, Field(ge=0.1, le=0.95)] = 0.8
    keep: Annotated[_Share, Field(ge=0, le=0.5)] = 0.2

    @model_validator(mode="after")
    def _steps_are_large(self) -> Self:
        if self.keep > self.at / 2:
            raise ValueError(
                "keep must be at most half of at: each compaction has the prompt computed anew, "
                "so it has to be seldom"
            )
        return self

    @property
    def compaction(self) -> Compaction:
        """As it is stored."""
        return Compaction(at=self.at, keep=self.keep)


class ConversationOptions(_Body):
    """Foreword's own: compaction, and whether the KV is kept under a salt of its own."""

    compaction: CompactionOptions | None = None
    isolated: Annotated[bool, Field(strict=True)] = False


class UpdateOptions(_Body):
    """What of it can be changed; null ends compaction."""

    compaction: CompactionOptions | None = None


class ConversationCreate(_Body):
    """The body of `POST /v1/conversations`."""

    items: Annotated[list[dict[str, Any]], Field(max_length=MOST_ITEMS)] | None = None
    metadata: Metadata | None = None
    foreword: ConversationOptions | None = None


class ConversationUpdate(_Body):
    """The body of `POST /v1/conversations/{id}`."""

    metadata: Metadata | None = None
    foreword: UpdateOptions | None = None


class ItemsCreate(_Body):
    """The body of `POST /v1/conversations/{id}/items`."""

    items: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_ITEMS)]


class ConversationFork(_Body):
    """The body of `POST /foreword/conversations/{id}/fork`: the last item that the fork has."""

    item: str | None = None
    metadata: Metadata | None = None
