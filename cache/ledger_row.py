"""One ledger row: what is known of one request, once it has ended. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RequestStatus(StrEnum):
    """How a request ended. `ABORTED` is the client's doing, `ERROR` ours or the engine's."""

    OK = "ok"
    ERROR = "error"
    ABORTED = "aborted"


# Not frozen: with so many fields that takes longer than all else that makes a row.
@dataclass(slots=True, kw_only=True)
class LedgerRow:
    """One request. Figures that are not known are `None`, never 0.

    `at` is the (aware) time when the request *ended*: the engine's own counters move then too, so
    that the two can be compared over one window.

    Attributes:
        lost: tokens by verdict, as in `cache.verdicts.Accounting`.
        scaffold: fingerprint of the template's static opening.
        prompt_digest: digest of the prompt's token ids.
        prompt_text: only where the operator has switched it on; None everywhere else.
        route_reason: why this replica was chosen.
        mode_reason: why this mode.
        predicted_ttft_s: what the choice of the mode expected of `ttft_s`.
        notes: what was done to the conversation that bears on its re-use.
    """

    request_id: str
    at: datetime
    tenant: str
    template: str
    status: RequestStatus
    collection: str | None = None
    mode: str | None = None
    replica: str | None = None
    prompt_tokens: int | None = None
    ideal_tokens: int | None = None
    cached_tokens: int | None = None
    cached_gpu: int | None = None
    cached_ram: int | None = None
    cached_ssd: int | None = None
    cached_redis: int | None = None
    cached_storage: int | None = None
    completion_tokens: int | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    verdict: str | None = None
    divergence: Mapping[str, object] | None = None
    error_code: str | None = None
    predicted_tokens: int | None = None
    new_tokens: int | None = None
    lost: Mapping[str, int] | None = None
    cause: str | None = None
    scaffold: str | None = None
    prompt_digest: str | None = None
    prompt_text: str | None = None
    route_reason: str | None = None
    mode_reason: str | None = None
    predicted_ttft_s: float | None = None
    notes: str | None = None
