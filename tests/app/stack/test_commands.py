"""Command lines and environments: what each process is told, and what it must not see."""

import json
from pathlib import Path

import pytest

from app.settings import GatewaySettings
from app.stack import commands
from app.stack.paths import HomePaths
from app.stack.settings import EngineOptions, Model
from cache.tiers import TierSettings

HOME = HomePaths(Path("/home/user/foreword"))
MODEL = Model(name="tiny", path="/models/abc", folder=Path("/models/abc"))
BASE = {"PATH": "/bin", "PYTHONPATH": "/elsewhere", "VIRTUAL_ENV": "/venv", "LANG": "C"}
BASE |= {"PYTHONDONTWRITEBYTECODE": "1", "PROMETHEUS_MULTIPROC_DIR": "/shared"}


def engine_argv(tier_settings: Path | None = None, **options: object) -> list[str]:
    return commands.engine_argv(
        Path("/env/bin/python"),
        model=MODEL,
        options=EngineOptions(**options),  # type: ignore[arg-type]
        port=5001,
        kv_events_port=5002,
        kv_events_replay_port=5003,
        tier_settings=tier_settings,
    )


def value_of(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_the_engine_reports_its_cache_and_counts_by_label() -> None:
    argv = engine_argv()
    assert argv[:4] == ["/env/bin/python", "-P", "-m", "foreword_guard.engine"]
    assert value_of(argv, "--model-path") == "/models/abc"
    assert value_of(argv, "--served-model-name") == "tiny"
    assert value_of(argv, "--page-size") == "16"
    assert value_of(argv, "--radix-eviction-policy") == "priority"
    labels = argv.index("--tokenizer-metrics-allowed-custom-labels")
    assert argv[labels + 1 : labels + 3] == ["template", "tenant"]
    assert {
        "--enable-cache-report",
        "--enable-metrics",
        "--sleep-on-idle",
        "--enable-priority-scheduling",
    } <= set(argv)


def test_the_engine_is_to_tell_by_itself_how_its_model_writes_tool_calls() -> None:
    assert value_of(engine_argv(), "--tool-call-parser") == "auto"
    named = engine_argv(arguments=("--tool-call-parser", "llama3"))
    assert named[-2:] == ["--tool-call-parser", "llama3"]


def test_tiers_are_named_to_the_engine_only_when_there_are_some() -> None:
    assert "--enable-lmcache" not in engine_argv()
    argv = engine_argv(Path("/run/lmcache.yaml"))
    assert value_of(argv, "--lmcache-config-file") == "/run/lmcache.yaml"


def test_everything_listens_on_loopback_only() -> None:
    """The KV events too: they hold prompts' token ids."""
    argv = engine_argv()
    assert value_of(argv, "--host") == "127.0.0.1"
    events = json.loads(value_of(argv, "--kv-events-config"))
    assert (events["endpoint"], events["bind"]) == ("tcp://127.0.0.1:5002", True)
    assert events["replay_endpoint"] == "tcp://127.0.0.1:5003"
    tier = commands.tier_argv(
        Path("/env/bin/python"),
        tiers=TierSettings(),
        home=HOME,
        port=1,
        http_port=2,
        prometheus_port=3,
    )
    assert (value_of(tier, "--host"), value_of(tier, "--http-host")) == ("127.0.0.1", "127.0.0.1")
    redis = commands.redis_argv(Path("/bin/redis-server"), port=6, largest_bytes=1024)
    assert value_of(redis, "--bind") == "127.0.0.1"


def test_further_arguments_come_last_so_that_they_win() -> None:
    argv = engine_argv(arguments=("--page-size", "32"))
    assert argv[-2:] == ["--page-size", "32"]


def test_traces_go_where_the_gateways_go() -> None:
    assert "--enable-trace" not in engine_argv()
    url = "http://collector:4318/v1/traces"
    argv = commands.engine_argv(
        Path("/engine/bin/python"),
        model=MODEL,
        options=EngineOptions(),
        port=1,
        kv_events_port=2,
        kv_events_replay_port=3,
        tier_settings=None,
        traces_url=url,
    )
    assert argv[argv.index("--enable-trace") :] == ["--enable-trace", "--otlp-traces-endpoint", url]
    assert engine_env()["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"


def engine_env(model: Model = MODEL, tiers: TierSettings | None = None) -> dict[str, str]:
    return commands.engine_env(
        BASE,
        home=HOME,
        model=model,
        options=EngineOptions(env={"EXTRA": "1"}),
        tiers=tiers,
        threads=3,
        scratch=Path("/scratch"),
    )


def test_the_engine_sees_nothing_of_the_gateways_python() -> None:
    env = engine_env()
    assert not {"PYTHONPATH", "VIRTUAL_ENV"} & set(env)
    assert "PYTHONDONTWRITEBYTECODE" not in env, "or each start would compile all again"
    assert "PROMETHEUS_MULTIPROC_DIR" not in env, "or several engines would count together"
    assert (env["PATH"], env["LANG"], env["EXTRA"]) == ("/bin", "C", "1")
    assert env["OMP_NUM_THREADS"] == "3"
    assert env[commands.STACK_VARIABLE] == HOME.identity


def test_a_local_model_is_served_offline_and_a_hubs_name_is_not() -> None:
    assert engine_env()["HF_HUB_OFFLINE"] == "1"
    hub = Model(name="org/model", path="org/model", folder=None)
    assert "HF_HUB_OFFLINE" not in engine_env(hub)


def test_the_guard_is_told_the_deadline() -> None:
    assert "FOREWORD_TIER_DEADLINE_S" not in engine_env()
    assert engine_env(tiers=TierSettings(deadline_s=0.5))["FOREWORD_TIER_DEADLINE_S"] == "0.5"


def test_the_tier_finds_its_key_and_writes_below_home() -> None:
    env = commands.tier_env(BASE, tiers=TierSettings(), home=HOME, scratch=Path("/scratch"))
    assert env["FOREWORD_KV_KEY_FILE"] == "/home/user/foreword/kv.key"
    argv = commands.tier_argv(
        Path("/env/bin/python"),
        tiers=TierSettings(),
        home=HOME,
        port=1,
        http_port=2,
        prometheus_port=3,
    )
    assert "/home/user/foreword/tiers/ssd" in value_of(argv, "--l2-adapter")
    assert value_of(argv, "--shm-name") == HOME.shared_memory_name


def test_the_gateway_gets_its_settings_by_name() -> None:
    env = commands.gateway_env(
        BASE,
        home=HOME,
        cache=Path("/cache"),
        host="127.0.0.1",
        port=8400,
        engine_urls=["http://127.0.0.1:5001"],
        model=MODEL,
        tiers=TierSettings(ssd_gb=None),
        tier_url="http://127.0.0.1:5004",
        kv_events="tcp://127.0.0.1:5002",
    )
    assert env["FOREWORD_ENGINE__TIERS"] == '["gpu", "ram"]'
    assert env["FOREWORD_HOME"] == "/home/user/foreword"
    assert env["FOREWORD_TIERS__URL"] == "http://127.0.0.1:5004"
    assert env["FOREWORD_ENGINE__KV_EVENTS"] == "tcp://127.0.0.1:5002"
    assert "FOREWORD_ENGINE__KV_EVENTS_REPLAY" not in env
    assert env["FOREWORD_ENGINE__URL"] == "http://127.0.0.1:5001"
    assert env["FOREWORD_GATEWAY__PORT"] == "8400"
    assert env["FOREWORD_ENGINE__TOKENIZER"] == "/models/abc"
    assert "FOREWORD_REPLICAS__URLS" not in env


def test_the_gateway_is_told_all_replicas() -> None:
    env = commands.gateway_env(
        BASE,
        home=HOME,
        cache=Path("/cache"),
        host="127.0.0.1",
        port=8400,
        engine_urls=["http://127.0.0.1:5001", "http://127.0.0.1:5005"],
        model=MODEL,
        tiers=None,
    )
    assert env["FOREWORD_REPLICAS__URLS"] == '["http://127.0.0.1:5001", "http://127.0.0.1:5005"]'
    assert env["FOREWORD_ENGINE__URL"] == "http://127.0.0.1:5001"


@pytest.mark.parametrize(("told", "seconds"), [(None, 30.0), ("5", 5.0), ("soon", 30.0)])
def test_the_gateways_patience_is_known_before_it_is_stopped(
    told: str | None, seconds: float
) -> None:
    assert GatewaySettings().drain_s == commands.DRAIN_S
    env = {} if told is None else {"FOREWORD_GATEWAY__DRAIN_S": told}
    assert commands.gateway_drain_s(env) == seconds


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_the_engine_computes_on_half_of_the_cores(cores: int, threads: int) -> None:
    assert commands.engine_threads(cores) == threads


@pytest.mark.parametrize(("cores", "threads"), [(2, 1), (8, 1), (16, 2)])
def test_four_engines_share_that_half(cores: int, threads: int) -> None:
    assert commands.engine_threads(cores, engines=4) == threads


def test_homes_have_different_shared_memory() -> None:
    other = HomePaths(Path("/home/other/foreword"))
    assert other.shared_memory_name != HOME.shared_memory_name
