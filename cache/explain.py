"""The story of one request's re-use, from its ledger row: what was expected, said, lost and to do.

Only counts, names and ids go in; a prompt's text is not known here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cache.causes import ADVICE, Cause
from cache.diagnostics import diagnostics
from cache.ledger_row import LedgerRow
from cache.verdicts import Verdict

__all__ = ["Explanation", "diagnostics", "explain"]

SCHEMA_VERSION = 1

_MEANING: Mapping[Cause, str] = {
    Cause.CLEARED: "the engine had it until its cache was flushed or it was restarted",
    Cause.POOL: "the engine had it until it needed the memory for other requests",
    Cause.TIER_SKIPPED: "it had left the GPU, and the engine did not ask the tiers",
    Cause.TIER_LOST: "it had left the GPU, and the tiers no longer had it",
    Cause.CHUNK: "tiers keep whole chunks, and it ends within one",
    Cause.PAGE: "the engine keeps whole pages, and the shared opening is shorter than one",
    Cause.CONCURRENT: "another request was computing the same at the same time",
    Cause.UNEXPLAINED: "the engine had it and computed it again all the same",
    Cause.OTHER_REPLICA: "only another replica had it",
    Cause.OTHER_SALT: "only another collection, isolated conversation or tenant had it, and they "
    "never share",
    Cause.VERSION: "another version of the template had computed it behind other text",
    Cause.TOOLS_CHANGED: "the tools differ, and all that follows them is computed again",
    Cause.SEGMENT_CHANGED: "text before it differs from that of an earlier prompt",
    Cause.DOCUMENTS_ORDER: "the same documents come in another order",
    Cause.DOCUMENTS_CHANGED: "other documents stand before it than in an earlier prompt",
    Cause.HISTORY_EDITED: "an earlier message of the conversation is not what it was",
    Cause.NO_CACHE_REPORT: "the engine does not report what it re-uses",
    Cause.EVENTS_OFF: "the engine sends no KV events, so that nobody knows what it had",
    Cause.EVENTS_LOST: "KV events were lost, so that nobody knows what the engine had",
    Cause.ABORTED: "the client left before the engine said what it re-used",
    Cause.FAILED: "the request failed before the engine said what it re-used",
    Cause.NOT_REPORTED: "the engine did not say what it re-used",
    Cause.NO_TOKEN_IDS: "the prompt was sent as messages, so that its tokens are not known here",
}
_TIERS = ("gpu", "ram", "ssd", "redis", "storage")
_NOTHING_TO_DO = "nothing: all that could be re-used was"
_FIRST_TIME = "nothing: the next prompt that begins like this one will be served from the cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The story in lines, the last of which says what to do, and the figures behind it."""

    lines: tuple[str, ...]
    row: LedgerRow

    @property
    def text(self) -> str:
        """All lines, each with its end."""
        return "".join([f"{line}\n" for line in self.lines])

    def json(self) -> dict[str, object]:
        """The same for programs; what isn't known is null."""
        row = self.row
        return {
            "schema_version": SCHEMA_VERSION,
            "request_id": row.request_id,
            "at": row.at.isoformat(),
            "template": row.template,
            "tenant": row.tenant,
            "collection": row.collection,
            "mode": row.mode,
            "replica": row.replica,
            "route_reason": row.route_reason,
            "mode_reason": row.mode_reason,
            "predicted_ttft_s": row.predicted_ttft_s,
            "status": row.status.value,
            "prompt_tokens": row.prompt_tokens,
            "ideal_tokens": row.ideal_tokens,
            "predicted_tokens": row.predicted_tokens,
            "cached_tokens": row.cached_tokens,
            "cached_by_tier": {name: getattr(row, f"cached_{name}") for name in _TIERS},
            "new_tokens": row.new_tokens,
            "lost": None if row.lost is None else dict(row.lost),
            "verdict": row.verdict,
            "cause": row.cause,
            "meaning": _MEANING[Cause(row.cause)] if row.cause else None,
            "divergence": None if row.divergence is None else dict(row.divergence),
            "ttft_s": row.ttft_s,
            "notes": row.notes,
            "advice": _advice(row),
            "diagnostics": diagnostics(row),
            "lines": list(self.lines),
        }


def explain(row: LedgerRow, *, shows_other_salts: bool = True) -> Explanation:
    """The story of a request.

    Args:
        row: as the ledger has it.
        shows_other_salts: whether tokens that other tenants had left are told of. Operators may
            know; a tenant would learn what others have sent.
    """
    shown = row if shows_other_salts else _without_other_salts(row)
    return Explanation(lines=tuple(_lines(shown)), row=shown)


def _without_other_salts(row: LedgerRow) -> LedgerRow:
    isolated = (row.lost or {}).get(Verdict.ISOLATED, 0)
    if not isolated:
        return row
    lost = {reason: n for reason, n in (row.lost or {}).items() if reason != Verdict.ISOLATED}
    new_tokens = None if row.new_tokens is None else row.new_tokens + isolated
    if row.verdict != Verdict.ISOLATED:
        return replace(row, lost=lost, new_tokens=new_tokens)
    rest = Verdict.HIT if row.ideal_tokens else Verdict.COLD
    verdict = max(lost, key=lost.__getitem__) if lost else rest.value
    return replace(row, lost=lost, new_tokens=new_tokens, verdict=verdict, cause=None)


def _lines(row: LedgerRow) -> Iterator[str]:
    yield _head(row)
    yield _expected(row)
    yield _said(row)
    yield from _lost(row)
    if row.new_tokens is not None and row.lost is not None:
        yield f"New: {_tokens(row.new_tokens)} that nobody had computed, or that always are."
    if row.divergence is not None:
        yield _parted(row.divergence)
    if row.notes is not None:
        yield f"Noted: {row.notes}."
    yield f"To do: {_advice(row)}."


def _head(row: LedgerRow) -> str:
    about = [row.template, f"tenant {row.tenant}"]
    if row.collection:
        about.append(f"collection {row.collection}" + (f" as {row.mode}" if row.mode else ""))
    if row.replica:
        about.append(
            f"replica {row.replica}" + (f" ({row.route_reason})" if row.route_reason else "")
        )
    verdict = row.verdict or "no verdict"
    cause = f", {row.cause}" if row.cause else ""
    return f"{row.request_id}: {verdict}{cause} · {' · '.join(about)} · {row.status.value}"


def _expected(row: LedgerRow) -> str:
    if row.prompt_tokens is None or row.ideal_tokens is None:
        return "Expected: not known; the engine rendered this prompt itself, or never got it."
    expected = f"Expected: of {_tokens(row.prompt_tokens)}, {row.ideal_tokens:,} had been left by "
    expected += "earlier requests"
    if row.predicted_tokens is None:
        return f"{expected}; what this replica had of them is not known."
    return f"{expected}; this replica and its tiers should have had {row.predicted_tokens:,}."


def _said(row: LedgerRow) -> str:
    if row.cached_tokens is None:
        return "The engine did not say what it re-used."
    served = [
        f"{count:,} from {name}"
        for name in _TIERS
        if (count := getattr(row, f"cached_{name}")) and not (name == "storage" and _split(row))
    ]
    by_tier = f" ({', '.join(served)})" if served else ""
    first = f"; first token after {row.ttft_s:.2f} s" if row.ttft_s is not None else ""
    return f"The engine re-used {row.cached_tokens:,}{by_tier}{first}."


def _split(row: LedgerRow) -> bool:
    """Whether the tiers that make up the storage are known one by one."""
    return None not in (row.cached_ram, row.cached_ssd, row.cached_redis)


def _lost(row: LedgerRow) -> Iterator[str]:
    """One line for each reason, the costliest first."""
    lost = row.lost or {}
    for reason in sorted(lost, key=lambda name: (-lost[name], name)):
        meaning = _meaning(row, reason)
        yield f"Lost: {_tokens(lost[reason])}, {reason}" + (f": {meaning}." if meaning else ".")
    if not lost and row.cause:
        yield f"Not known: {_MEANING[Cause(row.cause)]}."


def _meaning(row: LedgerRow, reason: str) -> str | None:
    if reason == row.verdict and row.cause:
        return _MEANING[Cause(row.cause)]
    return _IN_GENERAL.get(reason)


_IN_GENERAL: Mapping[str, str] = {
    Verdict.CHANGED: "earlier prompts had it at another place or after other text",
    Verdict.EVICTED: "this replica had it once",
    Verdict.MOVED: _MEANING[Cause.OTHER_REPLICA],
    Verdict.ISOLATED: _MEANING[Cause.OTHER_SALT],
    Verdict.ROUNDING: "it ends within a page or a tier's chunk",
    Verdict.ENGINE: "a rule of the engine",
    Verdict.UNKNOWN: "the evidence is missing",
}


def _parted(divergence: Mapping[str, object]) -> str:
    """`Parts at token 1,269 of 1,334, in question; matched through Document 3 (prices.md).`"""
    token, of = divergence.get("token"), divergence.get("of")
    place = f"Parts from {divergence.get('earlier_request') or 'an earlier prompt'} at token "
    place += f"{token:,} of {of:,}"
    if divergence.get("segment"):
        place += f", in {divergence['segment']}"
    if divergence.get("document"):
        place += f", {divergence['document']}"
    return f"{place}; {_matched(divergence)}." if divergence.get("parts") else f"{place}."


def _matched(divergence: Mapping[str, object]) -> str:
    through, matched = divergence.get("matched_through"), divergence.get("matched_parts")
    parts = divergence.get("parts")
    if not through:
        return f"none of its {parts} documents or messages matched"
    if str(through).startswith("message "):
        return f"matched through {through} of {parts}"
    return f"matched through Document {matched} ({through}) of {parts}"


def _advice(row: LedgerRow) -> str:
    if row.cause:
        return ADVICE[Cause(row.cause)]
    if row.verdict == Verdict.HIT:
        return _NOTHING_TO_DO
    if row.verdict == Verdict.COLD:
        return _FIRST_TIME
    return "look at /readyz: no verdict was made for this request"


def _tokens(count: int) -> str:
    return f"{count:,} token" if count == 1 else f"{count:,} tokens"
