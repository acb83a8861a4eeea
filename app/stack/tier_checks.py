"""What the tier server, the guard and Redis say of themselves, judged."""

from collections.abc import Iterator

from app.stack import health
from app.stack.check import Check, note, ok, problem
from app.stack.services import redis_address
from cache.tier_status import AdapterState, AdapterStatus, TierStatus

ASK_S = 10.0
BREAKER_METRIC = "foreword_tier_open"
PROOF_REASON = "foreword doctor --prove reads the tier below alone"
"""What an adapter is switched off for while a proof runs; the doctor knows it again afterwards."""


def adapters(status: TierStatus, *, url: str) -> Iterator[Check]:
    """Each adapter below RAM: used, failing, or switched off.

    Args:
        url: the tier server's, for the advice.
    """
    for adapter in status.adapters:
        yield _adapter(adapter, url=url)
        if adapter.rejected:
            yield note(
                f"tier {adapter.name}",
                f"{adapter.rejected} stored chunks were altered or damaged; they were deleted and "
                "computed again",
                "if you changed no key, look at the disk, or at who else can write there",
            )


def _adapter(adapter: AdapterStatus, *, url: str) -> Check:
    name, why = f"tier {adapter.name}", adapter.reason or "no reason given"
    if adapter.state is AdapterState.OK:
        loads, stores = adapter.loads, adapter.stores
        found = f"in use: {stores.chunks:,} chunks stored, {loads.chunks:,} loaded"
        lost = stores.failed + stores.skipped
        return ok(name, f"{found}, {lost:,} could not be stored" if lost else found)
    if adapter.state is AdapterState.FAILING:
        advice = "see that it is there, has room and answers; it is used again by itself"
        return problem(name, f"fails and is skipped: {why}", advice)
    if adapter.reason == PROOF_REASON:
        found = "left switched off by a `foreword doctor --prove` that was killed"
        return problem(name, found, switch_on_advice(adapter.name, url=url))
    if why.startswith("break-even"):
        return note(name, f"switched off by the gateway ({why}); it is tried again by itself")
    return note(name, f"switched off: {why}", switch_on_advice(adapter.name, url=url))


def switch_on_advice(adapter: str, *, url: str) -> str:
    """The command that switches an adapter on again."""
    body = '{"enabled": true}'
    header = "Content-Type: application/json"
    return f"on again: `curl -X PUT -H '{header}' -d '{body}' {url}/foreword/adapters/{adapter}`"


def breaker(metrics: str) -> Check:
    """The guard in the engine, by the engine's Prometheus text."""
    is_open = breaker_is_open(metrics)
    if is_open is None:
        return note("breaker", "its state is unknown: the engine has no such metric")
    if is_open:
        return problem("breaker", "open: the engine leaves the tiers alone", "wait, or see above")
    return ok("breaker", "closed: the engine uses the tiers")


def breaker_is_open(metrics: str) -> bool | None:
    """What the engine's Prometheus text says of the guard's breaker, None if it says nothing."""
    values = [
        line.rsplit(" ", 1)[1]
        for line in metrics.splitlines()
        if line.startswith((f"{BREAKER_METRIC} ", f"{BREAKER_METRIC}{{"))
    ]
    return any(float(value) > 0 for value in values) if values else None


def redis_policy(url: str) -> Check:
    """Whether the Redis of the KV tier forgets old KV when it is full."""
    host, port = redis_address(url)
    if not health.redis_answers(host, port, timeout_s=ASK_S):
        return problem("redis", f"{url} does not answer", "look at Redis' log")
    policy = health.redis_setting(host, port, "maxmemory-policy", timeout_s=ASK_S)
    bound = health.redis_setting(host, port, "maxmemory", timeout_s=ASK_S)
    if policy is None or bound is None:
        return note("redis", "answers, but doesn't tell its settings (a password, or no CONFIG)")
    if bound == "0":
        return problem(
            "redis", "has no bound, and grows until the machine has no memory", "set maxmemory"
        )
    if not policy.startswith("allkeys-"):
        return problem(
            "redis",
            f"evicts by {policy!r}, so that new KV is refused when it is full",
            "set maxmemory-policy to allkeys-lru; keep no state in this Redis",
        )
    return ok("redis", f"answers at {url}; {policy}, {int(bound) / 2**30:.2g} GiB at most")
