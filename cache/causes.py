"""The closed set of causes: one word more about a verdict, and what to do about it."""

from collections.abc import Mapping
from enum import StrEnum

from cache.verdicts import Verdict


class Cause(StrEnum):
    """Why a request has its verdict.

    `evicted`: `CLEARED` the engine's cache was flushed, or the engine restarted · `POOL` its memory
    was needed for other requests · `TIER_SKIPPED` gone from the GPU, and the tiers were not asked ·
    `TIER_LOST` gone from the GPU, and the tiers no longer had it.
    `rounding`: `CHUNK` tiers keep whole chunks · `PAGE` the engine keeps whole pages.
    `engine`: `CONCURRENT` another request was computing the same · `UNEXPLAINED` it was there.
    `moved`: `OTHER_REPLICA`. `isolated`: `OTHER_SALT`.
    `changed`: `VERSION` another version of the template · `TOOLS_CHANGED` · `SEGMENT_CHANGED` ·
    `DOCUMENTS_ORDER` the same documents in another order · `DOCUMENTS_CHANGED` other documents ·
    `HISTORY_EDITED` an earlier message is not what it was.
    `unknown`: `NO_CACHE_REPORT` · `EVENTS_OFF` no KV events from this replica · `EVENTS_LOST` ·
    `ABORTED`, `FAILED` before the engine said what it re-used · `NOT_REPORTED` it did not say ·
    `NO_TOKEN_IDS` the prompt was sent as messages, so that its tokens aren't known here.
    """

    CLEARED = "cleared"
    POOL = "pool"
    TIER_SKIPPED = "tier_skipped"
    TIER_LOST = "tier_lost"
    CHUNK = "chunk"
    PAGE = "page"
    CONCURRENT = "concurrent"
    UNEXPLAINED = "unexplained"
    OTHER_REPLICA = "other_replica"
    OTHER_SALT = "other_salt"
    VERSION = "version"
    TOOLS_CHANGED = "tools_changed"
    SEGMENT_CHANGED = "segment_changed"
    DOCUMENTS_ORDER = "documents_order"
    DOCUMENTS_CHANGED = "documents_changed"
    HISTORY_EDITED = "history_edited"
    NO_CACHE_REPORT = "no_cache_report"
    EVENTS_OFF = "events_off"
    EVENTS_LOST = "events_lost"
    ABORTED = "aborted"
    FAILED = "failed"
    NOT_REPORTED = "not_reported"
    NO_TOKEN_IDS = "no_token_ids"


VERDICT_OF: Mapping[Cause, Verdict] = {
    Cause.CLEARED: Verdict.EVICTED,
    Cause.POOL: Verdict.EVICTED,
    Cause.TIER_SKIPPED: Verdict.EVICTED,
    Cause.TIER_LOST: Verdict.EVICTED,
    Cause.CHUNK: Verdict.ROUNDING,
    Cause.PAGE: Verdict.ROUNDING,
    Cause.CONCURRENT: Verdict.ENGINE,
    Cause.UNEXPLAINED: Verdict.ENGINE,
    Cause.OTHER_REPLICA: Verdict.MOVED,
    Cause.OTHER_SALT: Verdict.ISOLATED,
    Cause.VERSION: Verdict.CHANGED,
    Cause.TOOLS_CHANGED: Verdict.CHANGED,
    Cause.SEGMENT_CHANGED: Verdict.CHANGED,
    Cause.DOCUMENTS_ORDER: Verdict.CHANGED,
    Cause.DOCUMENTS_CHANGED: Verdict.CHANGED,
    Cause.HISTORY_EDITED: Verdict.CHANGED,
    Cause.NO_CACHE_REPORT: Verdict.UNKNOWN,
    Cause.EVENTS_OFF: Verdict.UNKNOWN,
    Cause.EVENTS_LOST: Verdict.UNKNOWN,
    Cause.ABORTED: Verdict.UNKNOWN,
    Cause.FAILED: Verdict.UNKNOWN,
    Cause.NOT_REPORTED: Verdict.UNKNOWN,
    Cause.NO_TOKEN_IDS: Verdict.UNKNOWN,
}
"""The verdict that each cause belongs to."""

ADVICE: Mapping[Cause, str] = {
    Cause.CLEARED: "nothing, if the flush or restart was wanted; tiers (RAM, SSD) would keep the "
    "KV across it",
    Cause.POOL: "give the engine more KV memory (--mem-fraction-static), or switch on a RAM tier; "
    "`foreword plan` says how many tokens fit",
    Cause.TIER_SKIPPED: "look at /readyz: a tier is failing, and the engine goes without it",
    Cause.TIER_LOST: "give the tiers more room, or look at /readyz for one that is failing",
    Cause.CHUNK: "nothing, or a smaller tier chunk: it costs less than one chunk a request",
    Cause.PAGE: "a prompt shorter than a page can't be re-used: lengthen the scaffold or take a "
    "smaller --page-size",
    Cause.CONCURRENT: "send the first request of a burst alone, and the others once it has begun "
    "to answer",
    Cause.UNEXPLAINED: "check that the engine runs with the prefix cache on and without input "
    "log-probabilities",
    Cause.OTHER_REPLICA: "look at the route's reason: load or a failed replica overrode affinity",
    Cause.OTHER_SALT: "nothing: that is the price of keeping tenants, collections and isolated "
    "conversations apart",
    Cause.VERSION: "nothing: the first requests of a new version pay once for it",
    Cause.TOOLS_CHANGED: "send the same tools on every request of a conversation",
    Cause.SEGMENT_CHANGED: "move what varies (a date, a name, an id) behind what stays, or leave "
    "it out",
    Cause.DOCUMENTS_ORDER: "keep documents in one order",
    Cause.DOCUMENTS_CHANGED: "append documents rather than insert or replace them; ask with mode "
    "cag where the collection fits the window",
    Cause.HISTORY_EDITED: "append to conversations; don't edit, drop or summarise earlier messages",
    Cause.NO_CACHE_REPORT: "start the engine with --enable-cache-report",
    Cause.EVENTS_OFF: "start the engine with --kv-events-config",
    Cause.EVENTS_LOST: "give --kv-events-config a replay_endpoint and a larger buffer",
    Cause.ABORTED: "nothing: the client left before the engine said what it re-used",
    Cause.FAILED: "look at the request's error",
    Cause.NOT_REPORTED: "ask with stream_options.include_usage, or check the engine's version",
    Cause.NO_TOKEN_IDS: "look at /readyz: it says why prompts are sent as messages",
}
"""What to do about each cause, as a sentence's end."""
