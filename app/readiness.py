"""`/readyz`: whether requests would be answered, and what is degraded, as the last looks told."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.errors import EngineNotReadyError
from app.fleet.breaker import BreakerState
from app.fleet.states import ReplicaState
from app.isolation import IsolationVerdict
from app.replica import Replica
from app.replica_view import ReplicaView
from app.services import Services
from app.tiers import beside_it
from prompts.lint.findings import Severity

_TIERS_ANSWER = "see that the tier server answers at FOREWORD_TIERS__URL"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether requests would be answered now, and all that is known of it."""

    is_ready: bool
    details: dict[str, Any]

    @property
    def status(self) -> str:
        """`ok`, `degraded` or `not ready`."""
        return str(self.details["status"])


def readiness_of(services: Services) -> Readiness:
    """As of now; the looks that it rests on should be fresh."""
    fleet = services.fleet
    replicas = {replica.name: _told(services, replica) for replica in fleet.replicas}
    try:
        view = fleet.view()
    except EngineNotReadyError as error:
        reasons = [fleet.problem or str(error)]
        told = {"status": "not ready", "reasons": reasons, "replicas": replicas}
        return Readiness(is_ready=False, details=told)
    reasons, is_ready = degradations(services, view), bool(fleet.candidates())
    status = "not ready" if not is_ready else "degraded" if reasons else "ok"
    details = {
        "status": status,
        "reasons": reasons,
        "engine": _engine(services, view),
        "replicas": replicas,
        "corpora": services.corpora.counts(),
        "gateways": services.shared_views.told() if services.shared_views else None,
    }
    return Readiness(is_ready=is_ready, details=details)


def _engine(services: Services, view: ReplicaView) -> dict[str, Any]:
    """What all replicas have in common, and one of them for all where they may differ."""
    one, speed = services.fleet.any(), services.fleet.speed
    return {
        "url": one.client.url,
        "version": view.info.version,
        "model": view.info.served_name,
        "context_tokens": view.info.context_tokens,
        "page_tokens": view.info.page_tokens,
        "pool_tokens": view.info.pool_tokens,
        "cache_report": view.info.cache_report,
        "tiers": view.info.tiers,
        "tier_failures": one.counters.guard.failures,
        "isolation": view.isolation.verdict.value,
        "token_parity": view.parity.ok,
        "tool_parity": view.parity.tools,
        "kv_events": one.address is not None,
        "prefill_tokens_per_s": speed.tokens_per_s if speed else None,
    }


def _told(services: Services, replica: Replica) -> dict[str, Any]:
    """One replica: its state, and what is wrong with it."""
    return {
        "state": replica.state.value,
        "breaker": replica.breaker.state(time.monotonic()).value,
        "reasons": list(_replica(services, replica)),
    }


def degradations(services: Services, view: ReplicaView) -> list[str]:
    """Everything that is not as it should be; requests are answered all the same."""
    return [
        *_replicas(services),
        *_token_parity(view),
        *_tiers(services, view),
        *_accounting(services),
        *services.corpora.reasons,
        *_ledger(services),
        *_ingest(services),
        *services.admission.reasons(),
        *(services.shared_views.reasons() if services.shared_views else ()),
        *([services.keys.problem] if services.keys.problem else []),
    ]


def _replicas(services: Services) -> Iterator[str]:
    """Each replica's own; of several, with their names."""
    if services.fleet.source_problem is not None:
        yield services.fleet.source_problem
    if services.orders.problem is not None:
        yield services.orders.problem
    replicas = services.fleet.replicas
    for replica in replicas:
        named = f"{replica.name}: " if len(replicas) > 1 else ""
        for reason in _replica(services, replica):
            yield named + reason


def _replica(services: Services, replica: Replica) -> Iterator[str]:
    view = replica.seen
    if view is None or replica.state is not ReplicaState.READY:
        yield replica.problem or f"it is {replica.state.value} and gets no requests"
    elif replica.breaker.state(time.monotonic()) is not BreakerState.CLOSED:
        yield "it failed several requests in a row and is left alone for a while"
    if view is None or not replica.fits:
        return
    if view.isolation.verdict is not IsolationVerdict.PROVEN:
        yield f"it is not proven that the engine keeps tenants apart: {view.isolation.problem}"
    for finding in replica.check.findings(view):
        if finding.severity is not Severity.NOTE:
            yield f"{finding.code} {finding.message}"
    guard = replica.counters.guard
    if guard.tier_open:
        yield "the KV tiers don't answer and are skipped; prompts are computed instead"
    if view.info.tiers and guard.tier_open is None and replica.counters.guard_known:
        yield "the engine runs LMCache without the guard plugin: a dead tier stops it"
    if replica.tier.name:
        yield from _own_tiers(services, replica, view)
    if services.settings.accounting.enabled:
        yield from _kv_events(replica, view)


def _own_tiers(services: Services, replica: Replica, view: ReplicaView) -> Iterator[str]:
    yield from replica.tier.reasons
    if others := beside_it(replica, services.fleet.replicas):
        yield (
            f"FOREWORD_TIERS__PORT finds one tier server for it and {', '.join(others)}: name "
            "theirs with FOREWORD_TIERS__URLS, or one that all share with FOREWORD_TIERS__URL"
        )
    if replica.tier.client is None and view.info.tiers:
        yield (
            "it has tiers, but FOREWORD_TIERS__URLS names no tier server for it: where its loads "
            "come from isn't told, and no deleted salt's key can be destroyed there"
        )


def _token_parity(view: ReplicaView) -> Iterator[str]:
    if not view.parity.ok:
        yield f"prompts are sent as messages, not token ids: {view.parity.problem}"
    elif not view.parity.tools:
        yield f"tools are sent as messages, not token ids: {view.parity.problem}"


def _tiers(services: Services, view: ReplicaView) -> Iterator[str]:
    if services.tiers.shared is not None:
        yield from services.tiers.shared.reasons
    if services.deletions.pending and view.info.tiers:
        yield (
            f"the keys of {services.deletions.pending} deleted salts wait to be destroyed in the "
            f"tiers: {services.deletions.problem or _TIERS_ANSWER}"
        )


def _kv_events(replica: Replica, view: ReplicaView) -> Iterator[str]:
    status = replica.events.status
    if view.info.settings.get("kv_events_config") and replica.address is None:
        yield (
            "the engine publishes KV events where nobody finds them: set FOREWORD_ENGINE__KV_EVENTS"
            " and FOREWORD_ENGINE__KV_EVENTS_REPLAY"
        )
    if status.problem is not None:
        yield f"KV events can't be followed: {status.problem}"
    if status.unfilled_gaps:
        yield (
            f"KV events were lost {status.unfilled_gaps} times and could not be asked "
            "for again: some verdicts are unknown; give the engine a replay_endpoint"
        )


def _accounting(services: Services) -> Iterator[str]:
    if services.accounting.errors:
        yield (
            f"accounting failed for {services.accounting.errors} requests: the log has the reasons"
        )


def _ingest(services: Services) -> Iterator[str]:
    if problem := services.collections.queue.problem:
        yield f"files wait to be ingested: {problem}"


def _ledger(services: Services) -> Iterator[str]:
    status = services.ledger.status
    if status.degraded or status.dropped:
        yield f"the ledger can't be written: {status.last_error}"
    if status.purge_error is not None:
        yield f"old ledger rows can't be deleted: {status.purge_error}"
