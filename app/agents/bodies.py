"""What clients send to the routes of runs."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Decision(BaseModel):
    """What is to be done about a call that was interrupted.

    `output` is shown to the model as the call's result; only with `skip`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    call_id: Annotated[str, Field(min_length=1, max_length=255)]
    action: Literal["retry", "skip"]
    output: str | None = None
