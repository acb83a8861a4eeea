from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.engine_metrics import (
    CachedTokens,
    CacheSource,
    CounterTrack,
    EngineDelta,
    EngineSnapshot,
    combine,
    delta,
    parse_engine_metrics,
)
from cache.errors import MetricsFormatError

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=1)
Series = tuple[str | None, str | None, CacheSource]

series_keys = st.tuples(
    st.sampled_from([None, "chat@1", "docqa@1"]),
    st.sampled_from([None, "t1", "t2"]),
    st.sampled_from(CacheSource),
)
counters = st.dictionaries(series_keys, st.integers(1, 10**6), max_size=6)


def snapshot(
    cached: Mapping[Series, int],
    *,
    at: datetime = NOON,
    boot: float | None = 1.0,
    requests: int = 0,
) -> EngineSnapshot:
    return EngineSnapshot(
        at=at,
        cached=tuple(
            CachedTokens(template=key[0], tenant=key[1], source=key[2], tokens=tokens)
            for key, tokens in cached.items()
        ),
        prompt_tokens=sum(cached.values()),
        requests=requests,
        boot=None if boot is None else (("load_weight", boot),),
    )


def counts(delta: EngineDelta) -> dict[Series, int]:
    return {(s.template, s.tenant, s.source): s.tokens for s in delta.cached}


def plus(one: Mapping[Series, int], other: Mapping[Series, int]) -> dict[Series, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {*one, *other}}


def test_the_real_engines_page_is_read(captured: Path) -> None:
    page = parse_engine_metrics((captured / "sglang_after.prom").read_text(), at=NOON)
    assert page.cached == (
        CachedTokens(template=None, tenant=None, source=CacheSource.DEVICE, tokens=1200),
        CachedTokens(template="docqa@1", tenant="t1", source=CacheSource.DEVICE, tokens=6000),
        CachedTokens(template="docqa@1", tenant="t1", source=CacheSource.STORAGE, tokens=1152),
        CachedTokens(template="docqa@1", tenant="t2", source=CacheSource.STORAGE, tokens=1152),
    )
    assert page.requests == 12
    assert page.prompt_tokens == 1224 + 7278 + 1213 + 1213 + 131 + 1213


def test_an_engine_that_has_cached_nothing_yet_counts_zero(captured: Path) -> None:
    page = parse_engine_metrics((captured / "sglang_idle.prom").read_text(), at=NOON)
    assert page.cached == ()
    assert page.requests == 1


def test_two_pages_of_one_run_differ_by_what_was_counted(captured: Path) -> None:
    pages = [
        parse_engine_metrics((captured / f"sglang_{name}.prom").read_text(), at=at)
        for name, at in (("idle", NOON), ("after", LATER))
    ]
    counted = delta(*pages)
    assert counted.resets == 0
    assert counted.requests == 11
    assert sum(series.tokens for series in counted.cached) == 1200 + 6000 + 2 * 1152


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>404</html>",
        "up 1\n",
        'sglang:cached_tokens_total{cache_source="device"\n',
        'sglang:cached_tokens_total{cache_source="device"} many\n',
        'sglang:cached_tokens_total{cache_source="device"} NaN\n',
        'sglang:cached_tokens_total{cache_source="device"} -1\n',
        'sglang:cached_tokens_total{cache_source="tape"} 1\n',
        "sglang:num_requests_total +Inf\n",
    ],
)
def test_what_is_not_the_engines_page_is_refused(text: str) -> None:
    with pytest.raises(MetricsFormatError, match="metrics of SGLang can't be read"):
        parse_engine_metrics(text, at=NOON)


@given(st.text(max_size=80))
def test_no_page_raises_anything_else(text: str) -> None:
    try:
        parse_engine_metrics(f"sglang:cached_tokens_total{text}", at=NOON)
    except MetricsFormatError:
        return


@given(counters, counters)
def test_a_delta_is_what_was_added(start: dict[Series, int], added: dict[Series, int]) -> None:
    counted = delta(snapshot(start), snapshot(plus(start, added), at=LATER))
    assert counts(counted) == added
    assert counted.resets == 0
    assert counted.prompt_tokens == sum(added.values())


@given(counters, counters)
def test_after_a_restart_everything_counts_since_the_restart(
    start: dict[Series, int], added: dict[Series, int]
) -> None:
    counted = delta(snapshot(start, boot=1.0), snapshot(added, at=LATER, boot=2.0))
    assert counts(counted) == added
    assert counted.resets == 1


@given(counters.filter(bool), st.data())
def test_any_counter_that_fell_shows_a_restart(
    start: dict[Series, int], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(start, key=str)))
    fallen = {**start, key: data.draw(st.integers(0, start[key] - 1))}
    grown = replace(snapshot(fallen, at=LATER, boot=None), prompt_tokens=10**9)
    assert delta(snapshot(start, boot=None), grown).resets == 1


@given(st.lists(st.tuples(counters, st.booleans()), max_size=6))
def test_a_track_adds_up_over_restarts(steps: list[tuple[dict[Series, int], bool]]) -> None:
    boot, current, expected = 1.0, {}, {}
    track = CounterTrack.start(snapshot(current, boot=boot))
    restarts = 0
    for minute, (added, restart) in enumerate(steps, start=1):
        if restart:
            boot, current, restarts = boot + 1, {}, restarts + 1
        current, expected = plus(current, added), plus(expected, added)
        at = NOON + timedelta(minutes=minute)
        track = track.advance(snapshot(current, at=at, boot=boot))
    assert counts(track.total) == expected
    assert track.total.resets == restarts
    assert track.total.since == NOON
    assert track.total.until == NOON + timedelta(minutes=len(steps))


@given(counters, counters)
def test_replicas_add_up(one: dict[Series, int], other: dict[Series, int]) -> None:
    parts = [delta(snapshot({}), snapshot(counted, at=LATER)) for counted in (one, other)]
    assert counts(combine(parts)) == plus(one, other)


def test_nothing_to_combine_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        combine([])
