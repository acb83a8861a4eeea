"""What ``foreword doctor`` asks a running stack. Nobody's requests are disturbed by it."""

from collections.abc import Iterator

from app.stack import health
from app.stack.check import Check, note, ok, problem
from app.stack.gateway_checks import cross_check, readiness, tier_speeds
from app.stack.stack_file import StackFacts
from app.stack.tier_checks import adapters, breaker, redis_policy
from cache.errors import TierAnswerError
from cache.tier_status import parse_tier_status

ASK_S = 10.0


def live_checks(facts: StackFacts) -> Iterator[Check]:
    """Processes, engine, tiers and gateway, in the order in which they need one another."""
    if not facts.ready:
        yield note("stack", f"pid {facts.pid} is still starting", "ask again in a minute")
    else:
        yield ok("stack", f"pid {facts.pid}, started {facts.started}")
    for name, process in facts.processes.items():
        if process.pid is None:
            yield problem(name, f"does not run ({process.state})", f"its log: {process.log}")
        elif process.restarts:
            yield note(name, f"restarted {process.restarts} times", f"its log: {process.log}")
        else:
            yield ok(name, f"pid {process.pid}, {process.state}")
    yield from _engine(facts.engine_url)
    if facts.tier_url is not None:
        yield from _tiers(facts, facts.tier_url)
    if facts.url is not None:
        yield from _gateway(facts.url)


def _engine(url: str) -> Iterator[Check]:
    ready = health.get(f"{url}/ready", timeout_s=ASK_S)
    if not ready.good:
        yield problem("engine", f"{url} is not ready {_why(ready)}", "look at the engine's log")
        return
    info = health.get(f"{url}/server_info", timeout_s=ASK_S).json()
    if not isinstance(info, dict):
        yield problem("engine", f"{url} does not describe itself", "is it SGLang 0.5.23?")
        return
    yield ok("engine", f"SGLang {info.get('version', '(unknown version)')} is ready at {url}")
    if info.get("enable_cache_report"):
        yield ok("cache report", "the engine reports re-used tokens")
    else:
        yield problem(
            "cache report",
            "the engine doesn't report re-used tokens, so hit rates are unknown",
            "start SGLang with --enable-cache-report",
        )


def _tiers(facts: StackFacts, url: str) -> Iterator[Check]:
    answer = health.get(f"{url}/healthcheck", timeout_s=ASK_S)
    if answer.good:
        yield ok("tiers", f"LMCache answers at {url}")
        yield from _adapters(url)
    else:
        yield problem(
            "tiers",
            f"LMCache does not answer {_why(answer)}; requests are computed without it",
            "look at the tier's log",
        )
    metrics = health.get(f"{facts.engine_url}/metrics", timeout_s=ASK_S)
    yield breaker(metrics.body.decode(errors="replace"))
    if facts.redis_url is not None:
        yield redis_policy(facts.redis_url)


def _adapters(url: str) -> Iterator[Check]:
    answer = health.get(f"{url}/foreword/status", timeout_s=ASK_S)
    if not answer.good:
        yield note("tier adapters", f"the tier server says nothing of them {_why(answer)}")
        return
    try:
        status = parse_tier_status(answer.body)
    except TierAnswerError as exc:
        yield note("tier adapters", str(exc))
        return
    yield from adapters(status, url=url)


def _gateway(url: str) -> Iterator[Check]:
    answer = health.get(f"{url}/readyz", timeout_s=ASK_S)
    body = answer.json()
    if not isinstance(body, dict) or "status" not in body:
        yield problem("gateway", f"{url} does not answer {_why(answer)}", "look at its log")
        return
    yield from readiness(body, url=url)
    if body["status"] == "not ready":
        return
    plan = health.get(f"{url}/foreword/plan", timeout_s=ASK_S).json()
    yield from tier_speeds(plan)
    report = health.get(f"{url}/foreword/report", timeout_s=ASK_S).json()
    yield from cross_check(report)


def _why(answer: health.HttpAnswer) -> str:
    return f"({answer.problem or f'status {answer.status}'})"
