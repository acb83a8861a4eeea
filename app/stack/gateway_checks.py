"""The gateway's own JSON (`/readyz`, `/foreword/plan`, `/foreword/report`), judged. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.stack.check import Check, note, ok, problem
from cache.break_even import TierVerdict

LARGEST_DIFFERENCE = 0.01
"""Of the engine's count; what two counts of the same tokens may differ by."""

# A reason in `/readyz` that has one of these words is about the thing on the right.
_SUBJECTS = (
    ("KV events", "kv events"),
    ("keeps tenants apart", "isolation"),
    ("one tenant's KV", "isolation"),
    ("ledger", "ledger"),
    ("accounting", "accounting"),
    ("tier", "tiers"),
)


def readiness(body: Mapping[str, Any], *, url: str) -> Iterator[Check]:
    """`/readyz`: one check for each reason, and what is well."""
    reasons = [str(reason) for reason in body.get("reasons", ())]
    if body["status"] == "not ready":
        found = f"not ready: {'; '.join(reasons)}"
        leaks = any(_subject(reason) == "isolation" for reason in reasons)
        advice = "docs/doctor.md, isolation" if leaks else "ask again, or look at its log"
        yield problem("isolation" if leaks else "gateway", found, advice)
        return
    engine = body.get("engine") or {}
    parity = ", token ids equal to the engine's" if engine.get("token_parity") else ""
    yield ok("gateway", f"ready at {url}{parity}")
    for reason in reasons:
        yield problem(_subject(reason), reason, _advice(reason))
    if engine.get("isolation") == "proven":
        yield ok("isolation", "at the gateway's start the engine kept two salts apart")
    if not any(_subject(reason) == "kv events" for reason in reasons):
        yield _kv_events(bool(engine.get("kv_events")))


def _kv_events(followed: bool) -> Check:
    if followed:
        return ok("kv events", "the gateway follows them, and none is missing")
    found = "the engine publishes none, so why re-use was lost is often unknown"
    return note("kv events", found, "start SGLang with --kv-events-config, see docs/accounting.md")


def _subject(reason: str) -> str:
    if reason.startswith("FW"):
        return "engine config"
    return next((subject for words, subject in _SUBJECTS if words in reason), "gateway")


def _advice(reason: str) -> str:
    if reason.startswith("FW"):
        return f"`foreword lint --explain {reason.split(maxsplit=1)[0]}`"
    return "docs/doctor.md, or the gateway's log"


def tier_speeds(plan: object) -> Iterator[Check]:
    """`/foreword/plan`: whether each tier's loads beat computing."""
    for tier in plan.get("tiers", ()) if isinstance(plan, dict) else ():
        yield _tier_speed(tier)


def _tier_speed(tier: Mapping[str, Any]) -> Check:
    name = f"break-even {tier['tier']}"
    ratio = tier.get("computing_to_loading")
    times = "" if ratio is None else f", computing takes {ratio:.2g} times as long"
    match tier["verdict"], tier["enabled"]:
        case TierVerdict.PAYS, _:
            return ok(name, f"loading pays{times}{_from(tier)}")
        case TierVerdict.SLOWER, True:
            return problem(
                name,
                f"loading is slower than computing{times}",
                "FOREWORD_TIERS__BREAK_EVEN=auto switches such a tier off; or see docs/plan.md",
            )
        case TierVerdict.SLOWER, _:
            return note(name, f"switched off, since loading is slower than computing{times}")
        case _:
            return note(name, "not measured yet: too little was loaded or computed")


def _from(tier: Mapping[str, Any]) -> str:
    least = tier.get("pays_from_tokens")
    return f"; from {least:,.0f} tokens on" if least else ""


def cross_check(report: object) -> Iterator[Check]:
    """`/foreword/report`: responses against the engine's own counters, and what is in neither."""
    name = "cross-check"
    told = report.get("cross_check") if isinstance(report, dict) else None
    if told is None:
        yield note(name, "not possible now: the engine's counters can't be read")
        return
    if not told["is_whole"]:
        yield note(name, f"not possible: the rows since {told['since']} aren't all kept any more")
        return
    difference, ratio = told["difference_tokens"], told["difference_ratio"]
    left_out = _left_out(told)
    beside = f"; not compared: {', '.join(left_out)}" if left_out else ""
    if _is_large(difference, ratio, resets=told["engine_resets"]):
        share = "" if ratio is None else f" ({ratio:+.1%})"
        yield problem(
            name,
            f"responses say {difference:+,} tokens{share} against the engine's counters{beside}",
            "`foreword report` shows it by template; see docs/doctor.md, cross-check",
        )
    elif not told["templates"]:
        yield note(name, f"nothing to compare yet{beside}")
    else:
        total = sum(line["engine"]["total"] for line in told["templates"])
        found = f"{difference:+,} tokens against the engine's {total:,} re-used ones{beside}"
        yield ok(name, found)


def _is_large(difference: int, ratio: float | None, *, resets: int) -> bool:
    """More in responses is no fault where the engine started anew and lost some of its count."""
    if difference == 0 or (resets and difference > 0):
        return False
    return ratio is None or abs(ratio) > LARGEST_DIFFERENCE


def _left_out(told: Mapping[str, Any]) -> Sequence[str]:
    parts = (
        (told["unknown_requests"], "requests whose re-use is unknown"),
        (told["engine_resets"], "engine restarts, each with a count lost"),
        (told["unlabelled_tokens"], "tokens of requests without the gateway's labels"),
    )
    return [f"{count:,} {what}" for count, what in parts if count]
