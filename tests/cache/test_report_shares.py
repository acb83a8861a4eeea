"""The parts of a group's prompt tokens add up to all of them, whatever isn't known."""

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import given

from cache.report_group_json import group_json
from cache.report_shares import PromptShares, prompt_shares
from cache.report_values import Group
from cache.summary import Accounted, HitRate, Lost, Percentiles, Summary, TierSums, TokenSum

TIERS = ("gpu", "ram", "ssd", "redis", "storage")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request's figures; None is unknown, and so is the storage's split where it is."""

    prompt: int | None
    cached: int | None
    gpu: int | None
    storage: int | None
    split: tuple[int, int, int] | None
    lost: int | None


@st.composite
def requests(draw: st.DrawFn) -> Request:
    def unless_unknown(number: int) -> int | None:
        return draw(st.sampled_from([number, None]))

    prompt = draw(st.integers(0, 100))
    cached = draw(st.integers(0, prompt))
    gpu = draw(st.integers(0, cached))
    ram = draw(st.integers(0, cached - gpu))
    ssd = draw(st.integers(0, cached - gpu - ram))
    split = (ram, ssd, cached - gpu - ram - ssd)
    told = unless_unknown(prompt)
    said = None if told is None else unless_unknown(cached)
    tiers = said is not None and draw(st.booleans())
    return Request(
        prompt=told,
        cached=said,
        gpu=gpu if tiers else None,
        storage=cached - gpu if tiers else None,
        split=split if tiers and draw(st.booleans()) else None,
        lost=None if said is None else unless_unknown(draw(st.integers(0, prompt - cached))),
    )


def of(*found: Request) -> Group:
    """Their sums, as the ledger makes them."""
    hits = [r for r in found if r.prompt is not None and r.cached is not None]
    accounted = [r for r in hits if r.lost is not None]

    def tokens(numbers: list[int | None]) -> TokenSum:
        known = [number for number in numbers if number is not None]
        return TokenSum(
            tokens=sum(known), known_requests=len(known), unknown_requests=len(numbers) - len(known)
        )

    splits = [[r.split[i] if r.split else None for r in found] for i in range(3)]
    columns = [[r.gpu for r in found], *splits, [r.storage for r in found]]
    lost = sum(r.lost or 0 for r in accounted)
    prompt, cached = (sum(getattr(r, name) for r in accounted) for name in ("prompt", "cached"))
    return Group.of(
        Summary(
            group={"template": "a@1"},
            requests=len(found),
            errors=0,
            aborted=0,
            prompt=tokens([r.prompt for r in found]),
            completion=tokens([None for _ in found]),
            cached=tokens([r.cached for r in found]),
            by_tier=TierSums(**dict(zip(TIERS, map(tokens, columns), strict=True))),
            hit=HitRate(
                cached_tokens=sum(r.cached or 0 for r in hits),
                prompt_tokens=sum(r.prompt or 0 for r in hits),
                requests=len(hits),
            ),
            accounted=Accounted(
                requests=len(accounted),
                prompt_tokens=prompt,
                cached_tokens=cached,
                ideal_tokens=cached + lost,
                new_tokens=prompt - cached - lost,
            ),
            lost=Lost(requests=len(accounted), tokens={"evicted": lost} if lost else {}),
            ttft=Percentiles(requests=0, p50_s=None, p90_s=None),
        )
    )


@given(st.lists(requests(), max_size=6))
def test_parts_add_up_and_none_is_more_than_was_told(found: list[Request]) -> None:
    group = of(*found)
    shares = prompt_shares(group)
    assert shares.total == sum(r.prompt or 0 for r in found)
    assert shares.reused == group.summary.hit.cached_tokens
    assert shares.gpu == sum(r.gpu or 0 for r in found)
    assert shares.ram + shares.ssd + shares.redis + shares.tier == sum(
        r.storage or 0 for r in found
    )
    assert shares.unknown == sum(r.prompt or 0 for r in found if r.cached is None)


def test_what_was_re_used_from_nobody_knows_where_is_a_part_of_its_own() -> None:
    told = Request(prompt=100, cached=66, gpu=66, storage=0, split=(0, 0, 0), lost=0)
    untold = Request(prompt=20, cached=14, gpu=None, storage=None, split=None, lost=None)
    nothing = Request(prompt=5, cached=None, gpu=None, storage=None, split=None, lost=None)
    shares = prompt_shares(of(told, untold, nothing))
    assert shares == PromptShares(
        gpu=66, reused_somewhere=14, lost={}, new=34, unexplained=6, unknown=5
    )


def test_a_program_is_told_the_same() -> None:
    told = group_json(of(Request(prompt=9, cached=4, gpu=None, storage=None, split=None, lost=1)))
    assert told["prompt_shares"] == {
        "gpu": 0, "ram": 0, "ssd": 0, "redis": 0, "tier": 0, "reused_somewhere": 4,
        "lost": {"evicted": 1}, "new": 4, "unexplained": 0, "unknown": 0,
    }  # fmt: skip
