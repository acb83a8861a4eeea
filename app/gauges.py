"""The levels of the gateway's parts, as they are when a scrape asks."""

import time
from collections.abc import Mapping

from app.agents.mcp.servers import McpServers
from app.agents.toolbox import OpensTools
from app.errors import EngineNotReadyError
from app.fleet.breaker import BreakerState
from app.fleet.states import ReplicaState
from app.levels import Levels, plain
from app.readiness import degradations
from app.replica import Replica
from app.services import Services
from app.version import VERSION


def levels_of(services: Services, refused: Mapping[str, int]) -> Levels:
    """All levels; those that are not known are None.

    Args:
        refused: what the wire's guard turned away, by error code.
    """
    return {
        **plain(_own(services)),
        **_replicas(services.fleet.replicas),
        "foreword_wire_refused": {(code,): float(count) for code, count in refused.items()},
        **_servers(services.agents.servers),
        **_build(),
    }


def _own(services: Services) -> dict[str, float | None]:
    accounting, replicas = services.accounting, services.fleet.replicas
    return {
        **_readiness(services),
        "event_loop_lag_seconds": services.lag.take(),
        "ledger_dropped_rows": services.ledger.dropped,
        "accounting_errors": accounting.errors,
        "kv_event_batches": sum(r.events.status.batches for r in replicas),
        "kv_event_gaps": sum(r.events.status.unfilled_gaps for r in replicas),
        "index_pages": accounting.index.pages if accounting.index else 0,
        "prompt_opening_bytes": services.stems.held_bytes,
        "conversation_bytes": services.conversations.held_bytes,
        "kv_deletions_pending": services.deletions.pending,
        **services.corpora.levels(),
        **services.admission.levels(),
        **(services.shared_views.levels() if services.shared_views else {}),
        **(services.shadow.levels() if services.shadow else {}),
    }


def _readiness(services: Services) -> dict[str, float | None]:
    try:
        view = services.fleet.view()
    except EngineNotReadyError:
        return {"ready": 0, "degraded_reasons": None}
    is_ready = bool(services.fleet.candidates())
    return {"ready": is_ready, "degraded_reasons": len(degradations(services, view))}


def _replicas(replicas: tuple[Replica, ...]) -> Levels:
    levels: dict[str, dict[tuple[str, ...], float | None]] = {
        "foreword_replica_state": {
            (replica.name, state.value): float(replica.state is state)
            for replica in replicas
            for state in ReplicaState
        }
    }
    for replica in replicas:
        for name, value in _replica(replica).items():
            levels.setdefault(f"foreword_replica_{name}", {})[replica.name,] = value
    return levels


def _replica(replica: Replica) -> dict[str, float | None]:
    load, breaker = replica.load, replica.breaker.state(time.monotonic())
    return {
        "breaker_open": float(breaker is not BreakerState.CLOSED),
        "in_flight": replica.meter.in_flight,
        "running_requests": load.running,
        "waiting_requests": load.waiting,
        "waiting_tokens": load.waiting_uncached_tokens,
        "pool_used_ratio": load.pool_used,
        "prefill_tokens_per_second": load.prefill_tokens_per_s,
        "tier_open": replica.counters.guard.tier_open,
    }


def _servers(servers: OpensTools) -> Levels:
    """MCP servers that are declared."""
    if not isinstance(servers, McpServers):
        return {}
    return {
        "foreword_mcp_server_state": {
            (name, state.value): float(state is now)
            for name, now in servers.states().items()
            for state in type(now)
        },
        "foreword_mcp_server_failures": {
            (name,): float(count) for name, count in servers.failures().items()
        },
    }


def _build() -> Levels:
    return {"foreword_build_info": {(VERSION,): 1.0}}
