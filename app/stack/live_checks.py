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


def live_checks(facts: StackFacts, *, key: str | None = None) -> Iterator[Check]:
    """Processes, engine, tiers and gateway, in the order in which they need one another.

    Args:
        key: for a gateway that has API keys; an admin's, so that all can be seen.
    """
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
    for url in facts.engine_urls:
        yield from _engine(url)
    if facts.tier_url is not None:
        yield from _tiers(facts, facts.tier_url)
    if facts.url is not None:
        yield from gateway_alone(facts.url, key=key)


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
    for engine_url in facts.engine_urls:
        metrics = health.get(f"{engine_url}/metrics", timeout_s=ASK_S)
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


def gateway_alone(url: str, *, key: str | None = None) -> Iterator[Check]:
    """What a gateway says of itself and its engines; `key` as above."""
    answer = health.get(f"{url}/readyz", timeout_s=ASK_S, key=key)
    body = answer.json()
    if not isinstance(body, dict) or "status" not in body:
        yield problem("gateway", f"{url} does not answer {_why(answer)}", "look at its log")
        return
    if set(body) == {"status"}:
        yield _unseen(url, str(body["status"]))
        return
    yield from readiness(body, url=url)
    if body["status"] == "not ready":
        return
    plan = health.get(f"{url}/foreword/plan", timeout_s=ASK_S, key=key).json()
    yield from tier_speeds(plan)
    report = health.get(f"{url}/foreword/report", timeout_s=ASK_S, key=key).json()
    yield from cross_check(report)


def _unseen(url: str, status: str) -> Check:
    """The gateway has keys, and tells a stranger no more than its status."""
    advice = "set FOREWORD_API_KEY to an admin's key to see the rest"
    make = problem if status == "not ready" else note
    return make("gateway", f"{url} says it is {status}", advice)


def _why(answer: health.HttpAnswer) -> str:
    return f"({answer.problem or f'status {answer.status}'})"
