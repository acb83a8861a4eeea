import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import TierSettingsError
from cache.tiers import (
    Eviction,
    LoadPolicy,
    LossySerde,
    RedisTier,
    TierSettings,
    WritePolicy,
    engine_config,
    guard_environment,
    server_arguments,
    server_environment,
)
from cache.usage import Tier

ALL = TierSettings(redis=RedisTier(host="127.0.0.1", port=6380, username="u", password="s3cret"))


def arguments(tiers: TierSettings, ssd_path: str | None = "/var/lib/kv") -> list[str]:
    return server_arguments(
        tiers,
        host="127.0.0.1",
        port=5556,
        http_port=8090,
        prometheus_port=9095,
        shm_name="foreword",
        ssd_path=ssd_path,
    )


def adapters(tiers: TierSettings) -> list[dict[str, object]]:
    args = arguments(tiers)
    return [json.loads(args[i + 1]) for i, name in enumerate(args) if name == "--l2-adapter"]


@pytest.mark.parametrize("tiers", [ALL, TierSettings(ssd_gb=None)])
def test_lmcache_knows_every_option_that_it_is_given(tiers: TierSettings, captured: Path) -> None:
    help_text = (captured / "lmcache_server_help.txt").read_text()
    known = set(re.findall(r"--[a-z0-9-]+", help_text))
    given_options = {name for name in arguments(tiers) if name.startswith("--")}
    assert given_options <= known


def test_every_adapter_encrypts_and_is_bounded() -> None:
    ssd, redis = adapters(TierSettings(ssd_gb=1.5, redis=RedisTier(host="kv", port=1, max_gb=2)))
    eviction = {"eviction_policy": "LRU", "trigger_watermark": 0.8, "eviction_ratio": 0.2}
    assert ssd == {
        "type": "fs_native",
        "base_path": "/var/lib/kv",
        "max_capacity_gb": 1.5,
        "eviction": eviction,
        "serde": {"type": "foreword_aead"},
    }
    assert redis == {
        "type": "resp",
        "host": "kv",
        "port": 1,
        "max_capacity_gb": 2,
        "eviction": eviction,
        "serde": {"type": "foreword_aead"},
    }


def test_no_secret_is_on_the_command_line_or_in_the_repr() -> None:
    assert "s3cret" not in repr(ALL)
    assert not any("s3cret" in argument for argument in arguments(ALL))
    environment = server_environment(ALL)
    assert environment["LMCACHE_RESP_PASSWORD"] == "s3cret"
    assert environment["LMCACHE_RESP_USERNAME"] == "u"
    assert "LMCACHE_RESP_PASSWORD" not in server_environment(TierSettings())


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        (ALL, {Tier.RAM, Tier.SSD, Tier.REDIS}),
        (TierSettings(), {Tier.RAM, Tier.SSD}),
        (TierSettings(ssd_gb=None), {Tier.RAM}),
        (TierSettings(enabled=False), set()),
    ],
)
def test_the_tiers_that_lmcache_serves_from(tiers: TierSettings, expected: set[Tier]) -> None:
    assert tiers.lmcache_tiers == expected


@given(
    st.text(st.characters(codec="ascii"), min_size=1),
    st.floats(0.001, 1e6),
    st.floats(0.001, 40),
)
def test_the_engines_yaml_says_what_was_meant(
    host: str, mq_timeout_s: float, heartbeat_s: float
) -> None:
    tiers = TierSettings(mq_timeout_s=mq_timeout_s, heartbeat_s=heartbeat_s)
    read = yaml.safe_load(engine_config(tiers, host=host, port=5556))
    assert read["mp_host"] == host
    assert read["mp_port"] == 5556
    assert read["extra_config"] == {
        "lmcache.mp.mq_timeout": mq_timeout_s,
        "lmcache.mp.heartbeat_interval": heartbeat_s,
    }


def test_the_guard_is_told_in_plain_numbers() -> None:
    assert guard_environment(TierSettings(deadline_s=0.5, breaker_retry_s=10)) == {
        "FOREWORD_TIER_DEADLINE_S": "0.5",
        "FOREWORD_TIER_BREAKER_FAILURES": "1",
        "FOREWORD_TIER_BREAKER_RETRY_S": "10",
        "FOREWORD_TIER_CHUNK_TOKENS": "64",
        "FOREWORD_TIER_START_WAIT_S": "30",
    }


@given(st.floats(0.01, 1000))
def test_an_adapter_that_is_late_leaves_time_for_the_others(deadline_s: float) -> None:
    environment = server_environment(TierSettings(deadline_s=deadline_s))
    waits_s = [float(environment[f"FOREWORD_ADAPTER_{what}_S"]) for what in ("LOOKUP", "LOAD")]
    assert sum(waits_s) < deadline_s


def value_of(tiers: TierSettings, option: str) -> str:
    given_arguments = arguments(tiers)
    return given_arguments[given_arguments.index(option) + 1]


def test_eviction_is_the_same_in_ram_and_on_the_disk() -> None:
    tiers = TierSettings(eviction=Eviction(policy="ARC", watermark=0.9, ratio=0.1))
    (ssd,) = adapters(tiers)
    assert value_of(tiers, "--eviction-policy") == "ARC"
    assert value_of(tiers, "--eviction-trigger-watermark") == "0.9"
    assert value_of(tiers, "--eviction-ratio") == "0.1"
    assert ssd["eviction"] == {
        "eviction_policy": "ARC",
        "trigger_watermark": 0.9,
        "eviction_ratio": 0.1,
    }


def test_what_ram_keeps_is_two_words_of_lmcache() -> None:
    tiers = TierSettings(write_policy=WritePolicy.SKIP_RAM, load_policy=LoadPolicy.RETAIN)
    assert value_of(tiers, "--l2-store-policy") == "skip_l1"
    assert value_of(tiers, "--l2-prefetch-policy") == "retain"


def test_ram_that_is_written_through_needs_no_eviction_and_the_disk_still_does() -> None:
    tiers = TierSettings(eviction=Eviction(policy="noop"), write_policy=WritePolicy.SKIP_RAM)
    (ssd,) = adapters(tiers)
    assert value_of(tiers, "--eviction-policy") == "noop"
    assert ssd["eviction"]["eviction_policy"] == "LRU"  # type: ignore[index]


def test_a_lossy_serde_lies_below_the_encryption_and_is_off_by_default() -> None:
    assert adapters(TierSettings())[0]["serde"] == {"type": "foreword_aead"}
    lossy = adapters(TierSettings(serde=LossySerde.FP8))[0]["serde"]
    assert lossy == {"type": "foreword_aead", "inner": "fp8"}
    turbo = TierSettings(serde=LossySerde.TURBOQUANT_K8V4, head_dim=64)
    assert adapters(turbo)[0]["serde"] == {
        "type": "foreword_aead",
        "inner": "turboquant_k8v4",
        "head_dim": 64,
    }


@pytest.mark.parametrize("head_dim", [None, 0, -64, 48])
def test_turboquant_needs_to_know_the_heads(head_dim: int | None) -> None:
    with pytest.raises(TierSettingsError, match="head_dim"):
        TierSettings(serde=LossySerde.TURBOQUANT_4BIT, head_dim=head_dim)


@pytest.mark.parametrize(
    ("made", "setting"),
    [
        (lambda: Eviction(policy="IsolatedLRU"), "no quota"),
        (lambda: Eviction(policy="FIFO"), "eviction.policy"),
        (lambda: Eviction(watermark=0), "eviction.watermark"),
        (lambda: Eviction(ratio=1.5), "eviction.ratio"),
        (lambda: TierSettings(eviction=Eviction(policy="noop")), "fills RAM up"),
        (lambda: TierSettings(write_policy=WritePolicy.SKIP_RAM, ssd_gb=None), "write_policy"),
    ],
)
def test_policies_that_lose_kv_or_fill_ram_are_refused(
    made: Callable[[], object], setting: str
) -> None:
    with pytest.raises(TierSettingsError, match=setting):
        made()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("chunk_tokens", 0),
        ("chunk_tokens", 72),
        ("page_tokens", 0),
        ("ram_gb", 0),
        ("ram_gb", float("nan")),
        ("ssd_gb", -1.0),
        ("deadline_s", 0),
        ("mq_timeout_s", float("inf")),
        ("heartbeat_s", 41),
        ("breaker_retry_s", -5),
        ("start_wait_s", 0),
        ("breaker_failures", 0),
    ],
)
def test_a_value_out_of_bounds_names_its_setting(setting: str, value: float) -> None:
    with pytest.raises(TierSettingsError, match=f"tier setting {setting} is ") as caught:
        TierSettings(**{setting: value})
    assert caught.value.setting == setting


@pytest.mark.parametrize("changes", [{"host": ""}, {"port": 0}, {"port": 65536}, {"max_gb": 0}])
def test_a_redis_that_cant_be_reached_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(TierSettingsError, match="tier setting redis"):
        RedisTier(**{"host": "kv", "port": 6379, **changes})


def test_an_ssd_tier_needs_a_folder() -> None:
    with pytest.raises(TierSettingsError, match="ssd_path"):
        arguments(TierSettings(), ssd_path=None)
    assert "--l2-adapter" not in arguments(TierSettings(ssd_gb=None), ssd_path=None)
