"""What is degraded, in sentences for `/readyz`, as far as the last looks told."""

from collections.abc import Iterator

from app.isolation import IsolationVerdict
from app.replica import ReplicaView
from app.services import Services
from prompts.lint.findings import Severity


def degradations(services: Services, view: ReplicaView) -> list[str]:
    """Everything that is not as it should be; requests are answered all the same."""
    return [
        *_isolation(view),
        *_token_parity(view),
        *_engine(services, view),
        *_tiers(services, view),
        *_accounting(services, view),
        *services.corpora.reasons,
        *_ledger(services),
        *_ingest(services),
    ]


def _isolation(view: ReplicaView) -> Iterator[str]:
    if view.isolation.verdict is not IsolationVerdict.PROVEN:
        yield f"it is not proven that the engine keeps tenants apart: {view.isolation.problem}"


def _token_parity(view: ReplicaView) -> Iterator[str]:
    if not view.parity.ok:
        yield f"prompts are sent as messages, not token ids: {view.parity.problem}"
    elif not view.parity.tools:
        yield f"tools are sent as messages, not token ids: {view.parity.problem}"


def _engine(services: Services, view: ReplicaView) -> Iterator[str]:
    for finding in services.engine_check.findings(view):
        if finding.severity is not Severity.NOTE:
            yield f"{finding.code} {finding.message}"


def _tiers(services: Services, view: ReplicaView) -> Iterator[str]:
    guard = services.counters.guard
    if guard.tier_open:
        yield "the KV tiers don't answer and are skipped; prompts are computed instead"
    if view.info.tiers and guard.tier_open is None and services.counters.guard_known:
        yield "the engine runs LMCache without the guard plugin: a dead tier stops it"
    if services.tier_watch is not None:
        yield from services.tier_watch.reasons
    if services.tier_policy is not None:
        yield from services.tier_policy.reasons
    if services.deletions.pending and view.info.tiers:
        yield (
            f"the keys of {services.deletions.pending} deleted salts wait to be destroyed in the "
            "tiers: see that the tier server answers at FOREWORD_TIERS__URL"
        )


def _accounting(services: Services, view: ReplicaView) -> Iterator[str]:
    accounting = services.accounting
    if not services.settings.accounting.enabled:
        return
    if view.info.settings.get("kv_events_config") and accounting.address() is None:
        yield (
            "the engine publishes KV events where nobody finds them: set FOREWORD_ENGINE__KV_EVENTS"
            " and FOREWORD_ENGINE__KV_EVENTS_REPLAY"
        )
    if accounting.events.problem is not None:
        yield f"KV events can't be followed: {accounting.events.problem}"
    if accounting.events.unfilled_gaps:
        yield (
            f"KV events were lost {accounting.events.unfilled_gaps} times and could not be asked "
            "for again: some verdicts are unknown; give the engine a replay_endpoint"
        )
    if accounting.errors:
        yield f"accounting failed for {accounting.errors} requests: the log has the reasons"


def _ingest(services: Services) -> Iterator[str]:
    if problem := services.collections.queue.problem:
        yield f"files wait to be ingested: {problem}"


def _ledger(services: Services) -> Iterator[str]:
    status = services.ledger.status
    if status.degraded or status.dropped:
        yield f"the ledger can't be written: {status.last_error}"
    if status.purge_error is not None:
        yield f"old ledger rows can't be deleted: {status.purge_error}"
