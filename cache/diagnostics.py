"""Where a prompt parted from an earlier one, in the shape of Anthropic's cache diagnostics.

Programs that read those can read these. `null` means that nothing changed that should have stayed
the same; a reason says what did, and `cache_missed_input_tokens` how many tokens lie behind the
change. Counts and names only.

Source: https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics (`diagnostics`,
`cache_miss_reason`: `model_changed`, `system_changed`, `tools_changed`, `messages_changed`,
`previous_message_not_found`, `unavailable`; the count only beside the first four). A gateway has
one model, and looks for the earlier prompt by itself, so that two of them never come.
"""

from collections.abc import Mapping
from enum import StrEnum

from cache.causes import Cause
from cache.ledger_row import LedgerRow
from cache.verdicts import Verdict


class MissReason(StrEnum):
    """What of a request differs from an earlier one."""

    SYSTEM_CHANGED = "system_changed"
    TOOLS_CHANGED = "tools_changed"
    MESSAGES_CHANGED = "messages_changed"
    UNAVAILABLE = "unavailable"


_REASONS: Mapping[str, MissReason] = {
    Cause.TOOLS_CHANGED: MissReason.TOOLS_CHANGED,
    Cause.HISTORY_EDITED: MissReason.MESSAGES_CHANGED,
}


def diagnostics(row: LedgerRow) -> dict[str, object] | None:
    """The `diagnostics` object of a request; None where nothing changed.

    Beside Anthropic's fields, `divergence` says where the two part.
    """
    if row.verdict == Verdict.UNKNOWN:
        return {"cache_miss_reason": {"type": MissReason.UNAVAILABLE.value}}
    divergence = row.divergence
    if divergence is None or not (row.lost or {}).get(Verdict.CHANGED):
        return None
    return {
        "cache_miss_reason": {
            "type": _reason(row, divergence).value,
            "cache_missed_input_tokens": _number(divergence, "of") - _number(divergence, "token"),
        },
        "divergence": dict(divergence),
    }


def _reason(row: LedgerRow, divergence: Mapping[str, object]) -> MissReason:
    if row.verdict == Verdict.CHANGED and row.cause is not None and row.cause in _REASONS:
        return _REASONS[row.cause]
    if divergence.get("segment") == "tools":
        return MissReason.TOOLS_CHANGED
    if str(divergence.get("document") or "").startswith("message "):
        return MissReason.MESSAGES_CHANGED
    return MissReason.SYSTEM_CHANGED


def _number(divergence: Mapping[str, object], name: str) -> int:
    value = divergence.get(name)
    return value if isinstance(value, int) else 0
