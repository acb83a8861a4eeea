"""Gauges and counters of the gateway's parts, read when a scrape asks for them."""

from collections.abc import Mapping
from itertools import chain

from app.series import Gauge

Levels = Mapping[str, Mapping[tuple[str, ...], float | None]]

_PLAIN = {
    "ready": "1 where requests would be answered now",
    "degraded_reasons": "Sentences in /readyz about what is not as it should be",
    "event_loop_lag_seconds": "Longest that the event loop was held up since the last scrape",
    "ledger_dropped_rows": "Ledger rows lost",
    "accounting_errors": "Faults of accounting since the start; the requests went on",
    "kv_event_batches": "Batches of KV events that were taken",
    "kv_event_gaps": "Times that KV events were lost and could not be asked for again",
    "index_pages": "Pages in the prefix index",
    "prompt_opening_bytes": "Memory that kept beginnings of prompts take, about",
    "conversation_bytes": "Memory that earlier turns and answers take, about",
    "kv_deletions_pending": "Deleted salts whose keys are still to be destroyed in the tiers",
    "corpora": "Collections that were used as a whole lately",
    "corpora_resident": "Those of them that the engine holds whole",
    "corpus_tokens": "Tokens of their prefixes",
    "corpus_resident_tokens": "Those of them that the engine is known to hold",
    "corpus_warmings": "Warmings that ran to their end since the start",
    "corpus_warmings_failed": "Warmings after which the corpus was not resident",
    "corpus_warm_computed_tokens": "Tokens that warmings had computed; in no request's count",
    "corpus_warm_loaded_tokens": "Tokens that warmings loaded from the tiers",
    "corpus_warm_seconds": "Seconds that warmings took",
    "queue_depth": "Requests that wait for admission",
    "shadow_queue_depth": "Copies that wait to be sent to the shadow target",
    "shadow_lost_rows": "Figures of mirrored requests that could not be written",
    "admitted_requests": "Requests that were let in and have not ended",
    "admission_capacity": "How many may be let in at once",
    "redis_up": "1 where the state shared with other gateways can be reached",
    "gateways": "Gateways that are heard through Redis, with this one",
    "shared_views_up": "1 where gateways hear through Redis what others sent where",
    "shared_views_failures": "Times that Redis was lost for that",
    "shared_views_applied": "Notes of other gateways that taught the prefix index something",
    "shared_views_missed": "Batches of notes that other gateways wrote and this one never read",
    "shared_views_untold": "Notes of this gateway that no other was told",
}
_BY_REPLICA = {
    "replica_breaker_open": "1 where the breaker keeps requests away",
    "replica_in_flight": "This gateway's requests that it has",
    "replica_running_requests": "Requests in its batch, as it said last",
    "replica_waiting_requests": "Requests in its queue, as it said last",
    "replica_waiting_tokens": "Tokens its queue has still to compute, as it said last",
    "replica_pool_used_ratio": "Share of its KV pool in use, as it said last",
    "replica_prefill_tokens_per_second": "Measured speed of prefill",
    "replica_tier_open": "1 where the guard in the engine skips the KV tiers",
}

_BY_CODE = {
    "wire_refused": "What was refused before it became a request, since the start, by error code",
}

LEVELS: tuple[Gauge, ...] = tuple(
    chain(
        (Gauge(f"foreword_{name}", about) for name, about in _PLAIN.items()),
        (Gauge(f"foreword_{name}", about, ("replica",)) for name, about in _BY_REPLICA.items()),
        (Gauge(f"foreword_{name}", about, ("code",)) for name, about in _BY_CODE.items()),
        (
            Gauge("foreword_replica_state", "1 for the state that it is in", ("replica", "state")),
            Gauge(
                "foreword_mcp_server_state", "1 for the state that it is in", ("server", "state")
            ),
            Gauge(
                "foreword_mcp_server_failures",
                "Times that its session could not be opened, or broke off, since the start",
                ("server",),
            ),
            Gauge("foreword_build_info", "Always 1", ("version",)),
        ),
    )
)


def plain(levels: Mapping[str, float | None]) -> Levels:
    """Levels without labels."""
    return {f"foreword_{name}": {(): value} for name, value in levels.items()}
