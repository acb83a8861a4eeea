"""The words for why a prompt's tokens were, or were not, re-used."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """Why a request's cached tokens fell short of what could have been re-used.

    `HIT`       nothing fell short: all that earlier requests had left was re-used
    `COLD`      no earlier request of this salt had left any of it
    `CHANGED`   an earlier prompt parts from this one within text that should have stayed the same
    `EVICTED`   the replica had it once and no tier has it any more, or can serve it now
    `MOVED`     another replica has it
    `ISOLATED`  another salt has it, and salts never share
    `ROUNDING`  it ends within a page or a tier's chunk
    `ENGINE`    a rule of the engine, such as two requests that compute the same at the same time
    `UNKNOWN`   the evidence is missing: said, never guessed
    """

    HIT = "hit"
    COLD = "cold"
    CHANGED = "changed"
    EVICTED = "evicted"
    MOVED = "moved"
    ISOLATED = "isolated"
    ROUNDING = "rounding"
    ENGINE = "engine"
    UNKNOWN = "unknown"


class Divergence(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """Where a prompt parts from the earlier one that it was compared with.

    `token` is an index into the prompt, `of` the prompt's length in tokens. `segment` is the
    template's id of the segment that the token lies in, None between segments. `document` is the
    document or message within it, and `matched_through` the last document or message that was still
    the same, `matched_parts` of the prompt's `parts`; they are None where there are no such parts.
    `earlier_request` is the id of the earlier request.
    """

    token: int
    of: int
    segment: str | None = None
    document: str | None = None
    matched_through: str | None = None
    matched_parts: int | None = None
    parts: int | None = None
    earlier_request: str | None = None

    def as_json(self) -> dict[str, object]:
        """All of it, as ledger rows and answers have it."""
        return msgspec.structs.asdict(self)


class Accounting(msgspec.Struct, kw_only=True, frozen=True):
    """Every prompt token of one request: re-used, lost for a reason, or new.

    Where both are known, prompt tokens = cached tokens + the sum of `lost` + `new_tokens`.

    Attributes:
        ideal_tokens: the longest whole pages that earlier requests of the same salt had left
            anywhere, by the engine's rules; never less than what the engine re-used.
        predicted_tokens: what the replica and its tiers should have had when the request was sent;
            None where that couldn't be known.
        verdict: the reason that cost most tokens; `HIT` or `COLD` where none cost any.
        cause: one word more about the verdict, such as `cleared` or `chunk`; a `cache.causes` name.
        lost: tokens by reason, only reasons that cost some.
        causes: the main cause of each reason, `UNKNOWN` included where nothing is known to be lost.
        new_tokens: tokens that nobody had computed before, and those that are always computed
            (the last one, and what follows the last whole page).
    """

    ideal_tokens: int | None
    predicted_tokens: int | None
    verdict: Verdict
    cause: str | None
    lost: Mapping[Verdict, int]
    new_tokens: int | None
    divergence: Divergence | None
    causes: Mapping[Verdict, str] = msgspec.field(default_factory=dict)
