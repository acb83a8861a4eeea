"""The page of a measurement of live traffic beside a batch. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.routing.tables import environment_line, table

MOST = 1.2


def p99(values: Sequence[float]) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def page(result: Mapping[str, Any]) -> str:
    """The whole page."""
    return "\n".join(_lines(result)) + "\n"


def ratio(result: Mapping[str, Any], beside: int) -> float:
    """The p99 of all windows with so many lines beside live traffic, over that of those without."""
    return p99(_times(result, beside)) / p99(_times(result, 0))


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    shape, plan = result["shape"], result["plan"]
    yield "# Live traffic beside a batch"
    yield ""
    yield (
        f"Simulated: one engine with {plan['pool_tokens']:,} tokens of KV that computes "
        f"{plan['prefill_tokens_per_s']:,.0f} prompt tokens a second, behind a real gateway. Live "
        f"requests come at random, {shape['rate']:g} a second: {1 - shape['cold_share']:.0%} go on "
        f"with one of {shape['live_prefixes']} conversations of {shape['live_prefix_tokens']:,} "
        f"tokens with {shape['live_new_tokens']} new ones, the others share nothing and have "
        f"{shape['cold_tokens']:,}. The batch has {shape['lines']:,} lines over "
        f"{shape['batch_prefixes']} prefixes of {shape['batch_prefix_tokens']:,} tokens. Windows "
        f"of {plan['seconds']:g} s with the same arrivals follow each other in changing order, "
        f"{plan['rounds']} of each. TTFT is the engine's prefill clock over what came to it when, "
        "so that a busy machine can't decide; what the client saw stands beside it."
    )
    yield ""
    head = ("lines beside", "live requests", "TTFT p50 s", "p99 s", "of none", "client p99 s",
            "of none", "lines answered", "failed")  # fmt: skip
    yield from table(head, (_row(result, arm) for arm in plan["arms"]))
    yield ""
    first = plan["arms"][1]
    goal = ratio(result, first)
    verdict = "kept" if goal <= MOST else "missed"
    yield f"The goal is at most {MOST:g} with {first} beside: {goal:.2f}, {verdict}."
    yield ""
    yield from environment_line(result)


def _row(result: Mapping[str, Any], arm: int) -> tuple[str, ...]:
    windows = [each for each in result["windows"] if each["beside"] == arm]
    times, clients = _times(result, arm), _times(result, arm, "client_ttft_s")
    base, client_base = p99(_times(result, 0)), p99(_times(result, 0, "client_ttft_s"))
    return (
        "none" if arm == 0 else str(arm),
        str(len(times)),
        f"{sorted(times)[len(times) // 2]:.3f}",
        f"{p99(times):.3f}",
        f"{p99(times) / base:.2f}",
        f"{p99(clients):.3f}",
        f"{p99(clients) / client_base:.2f}",
        str(sum(each["lines"] for each in windows)),
        f"{sum(each['failed'] for each in windows)} of {sum(w['requests'] for w in windows)}",
    )


def _times(result: Mapping[str, Any], arm: int, name: str = "ttft_s") -> list[float]:
    return [s for each in result["windows"] if each["beside"] == arm for s in each[name]]
