import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.usage import CacheUsage, Tier, TierTokens, parse_usage

counts = st.integers(0, 10**6)
NOTHING = TierTokens(gpu=0, ram=0, ssd=0, redis=0, storage=0)


def usage(cached: object, prompt: object = 1000) -> dict[str, object]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def details(**parts: object) -> dict[str, object]:
    return {"cached_tokens_details": parts}


def known(tokens: TierTokens) -> list[int]:
    tiers = tokens.gpu, tokens.ram, tokens.ssd, tokens.redis, tokens.storage
    return [count for count in tiers if count is not None]


@pytest.mark.parametrize(
    ("name", "cached", "by_tier"),
    [
        ("cold", 0, NOTHING),
        ("chat_cold_stream", 0, NOTHING),
        ("hit", 1200, TierTokens(gpu=1200, ram=0, ssd=0, redis=0, storage=0)),
        ("hit_stream", 1200, TierTokens(gpu=1200, ram=0, ssd=0, redis=0, storage=0)),
        ("other", 0, NOTHING),
        ("storage", 1152, TierTokens(gpu=0, storage=1152)),
        ("storage_stream", 1152, TierTokens(gpu=0, storage=1152)),
    ],
)
def test_the_real_engines_responses_are_read(
    captured: Path, name: str, cached: int, by_tier: TierTokens
) -> None:
    response = json.loads((captured / "responses.json").read_text())[name]
    parsed = parse_usage(response["usage"], response["sglext"])
    assert parsed.cached_tokens == cached
    assert parsed.by_tier == by_tier
    assert parsed.completion_tokens == 8


def test_no_usage_at_all_is_unknown() -> None:
    assert parse_usage(None, None) == CacheUsage()


def test_usage_without_the_cache_report_leaves_cached_tokens_unknown() -> None:
    parsed = parse_usage({"prompt_tokens": 9, "prompt_tokens_details": None}, None)
    assert parsed == CacheUsage(prompt_tokens=9)


def test_the_split_gives_the_sum_where_the_cache_report_is_off() -> None:
    parsed = parse_usage({"prompt_tokens": 99}, details(device=64, host=0))
    assert parsed.cached_tokens == 64
    assert parsed.by_tier == TierTokens(gpu=64, ram=0, ssd=0, redis=0, storage=0)


def test_a_hit_without_its_split_has_unknown_tiers() -> None:
    assert parse_usage(usage(640), None).by_tier == TierTokens()


def test_hicache_host_memory_is_ram_and_its_files_are_ssd() -> None:
    split = details(device=10, host=20, storage=30, storage_backend="HiCacheFile")
    assert parse_usage(usage(60), split).by_tier == TierTokens(
        gpu=10, ram=20, ssd=30, redis=0, storage=50
    )


def test_a_backend_that_we_dont_know_is_not_split() -> None:
    split = details(device=10, host=0, storage=30, storage_backend="HiCacheNew")
    assert parse_usage(usage(40), split).by_tier == TierTokens(gpu=10, storage=30)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ({Tier.RAM}, TierTokens(gpu=16, ram=64, ssd=0, redis=0, storage=64)),
        ({Tier.RAM, Tier.SSD}, TierTokens(gpu=16, redis=0, storage=64)),
        ({Tier.RAM, Tier.SSD, Tier.REDIS}, TierTokens(gpu=16, storage=64)),
    ],
)
def test_a_load_is_split_only_where_one_tier_can_have_served_it(
    tiers: set[Tier], expected: TierTokens
) -> None:
    split = details(device=16, host=0, storage=64, storage_backend="LMCache")
    assert parse_usage(usage(80), split, lmcache_tiers=tiers).by_tier == expected


def test_a_split_that_does_not_add_up_is_unknown() -> None:
    parsed = parse_usage(usage(100), details(device=64, host=0))
    assert parsed.cached_tokens == 100
    assert parsed.by_tier == TierTokens()


def test_more_cached_than_prompt_tokens_is_unknown() -> None:
    assert parse_usage(usage(1001), None) == CacheUsage(prompt_tokens=1000, completion_tokens=8)


@given(st.one_of(st.none(), st.booleans(), st.floats(), st.text(), st.integers(max_value=-1)))
def test_what_is_no_count_is_unknown_and_never_zero(value: object) -> None:
    parsed = parse_usage(usage(value, prompt=value), None)
    assert (parsed.prompt_tokens, parsed.cached_tokens) == (None, None)
    assert parsed.by_tier == TierTokens()
    assert parse_usage({}, details(device=value, host=0)).cached_tokens is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
wild_details = st.dictionaries(
    st.sampled_from(["device", "host", "storage", "storage_backend"]), json_values | counts
)
wild_usage = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": json_values | counts,
        "completion_tokens": json_values,
        "prompt_tokens_details": json_values
        | st.fixed_dictionaries({}, optional={"cached_tokens": json_values | counts}),
    },
)
wild_sglext = st.fixed_dictionaries(
    {}, optional={"cached_tokens_details": json_values | wild_details}
)


@given(st.none() | wild_usage, st.none() | wild_sglext)
def test_whatever_comes_is_read_without_inventing_a_number(
    usage: dict[str, object] | None, sglext: dict[str, object] | None
) -> None:
    parsed = parse_usage(usage, sglext)
    cached = parsed.cached_tokens
    if cached is None:
        assert known(parsed.by_tier) == []
        return
    reported = (usage or {}).get("prompt_tokens_details")
    told = isinstance(reported, dict) and reported.get("cached_tokens") == cached
    assert told or (sglext or {}).get("cached_tokens_details")
    if parsed.by_tier.gpu is not None and parsed.by_tier.storage is not None:
        assert parsed.by_tier.gpu + parsed.by_tier.storage == cached
    assert all(0 <= count <= cached for count in known(parsed.by_tier))


@given(
    counts, counts, counts, st.sets(st.sampled_from([Tier.RAM, Tier.SSD, Tier.REDIS]), min_size=1)
)
def test_known_tiers_add_up_to_the_storage_sum(
    device: int, host: int, storage: int, tiers: set[Tier]
) -> None:
    split = details(device=device, host=host, storage=storage, storage_backend="LMCache")
    total = device + host + storage
    by_tier = parse_usage(usage(total, total), split, lmcache_tiers=tiers).by_tier
    below = [by_tier.ram, by_tier.ssd, by_tier.redis]
    assert by_tier.gpu == device
    assert by_tier.storage == host + storage
    if None not in below:
        assert sum(count or 0 for count in below) == by_tier.storage
