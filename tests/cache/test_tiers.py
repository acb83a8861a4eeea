import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cache.errors import TierSettingsError
from cache.tiers import (
    RedisTier,
    TierSettings,
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
    }


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
