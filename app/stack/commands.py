"""The command lines and environments of the stack's processes. Pure.

Source of the flags: SGLang 0.5.23 ``launch_server --help``, LMCache 0.5.6 ``lmcache server
--help``, redis-server 7.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.stack.paths import HomePaths
from app.stack.ports import LOOPBACK
from app.stack.settings import EngineOptions, Model
from cache.tiers import TierSettings, guard_environment, server_arguments, server_environment
from cache.usage import Tier

KV_EVENTS_OPTION = "--kv-events-config"
KV_EVENTS_TOPIC = "kv"
STACK_VARIABLE = "FOREWORD_STACK_ID"
"""Marks every process of a stack with its home's identity, so that leftovers can be found."""

DRAIN_S = 30.0
"""The gateway's own default of ``gateway.drain_s``."""

LABELS = ("template", "tenant")
"""What the engine counts tokens by; the gateway sends both with every request."""


def engine_argv(
    python: Path,
    *,
    model: Model,
    options: EngineOptions,
    port: int,
    kv_events_port: int,
    kv_events_replay_port: int,
    tier_settings: Path | None,
    traces_url: str | None = None,
) -> list[str]:
    """SGLang behind the guard's version check.

    Args:
        tier_settings: LMCache's YAML for the engine, or None for no tiers.
        traces_url: where it sends its traces, which go on with the gateway's; None: nowhere.
    """
    argv = [str(python), "-P", "-m", "foreword_guard.engine"]
    argv += ["--model-path", model.path, "--served-model-name", model.name]
    argv += ["--host", LOOPBACK, "--port", str(port), "--device", "cpu", "--dtype", options.dtype]
    argv += ["--page-size", str(options.page_size), "--max-total-tokens", str(options.pool_tokens)]
    argv += ["--enable-cache-report", "--enable-metrics", "--sleep-on-idle"]
    # How its model writes calls is told by the chat template; where that can't be told, the guard
    # has those read that a request demands. Source: deploy/engine-guard, demanded_calls.py.
    argv += ["--tool-call-parser", "auto"]
    # The supervisor asks for a first token itself (services.engine_is_ready).
    argv += ["--skip-server-warmup"]
    argv += ["--enable-priority-scheduling", "--radix-eviction-policy", "priority"]
    argv += ["--tokenizer-metrics-allowed-custom-labels", *LABELS]
    events = kv_events_config(kv_events_port, replay_port=kv_events_replay_port)
    argv += [KV_EVENTS_OPTION, json.dumps(events)]
    if tier_settings is not None:
        argv += ["--enable-lmcache", "--lmcache-config-file", str(tier_settings)]
    if traces_url is not None:
        argv += ["--enable-trace", "--otlp-traces-endpoint", traces_url]
    return [*argv, *options.arguments]


def kv_events_config(port: int, *, replay_port: int) -> dict[str, str | bool]:
    """Publishes on loopback only, because the events hold prompts' token ids.

    What a subscriber missed it can ask for again at the replay port.

    Source: sglang 0.5.23, srt/disaggregation/kv_events.py: with an address that is no wildcard
    the publisher connects unless ``bind`` says otherwise.
    """
    return {
        "publisher": "zmq",
        "endpoint": f"tcp://{LOOPBACK}:{port}",
        "replay_endpoint": f"tcp://{LOOPBACK}:{replay_port}",
        "topic": KV_EVENTS_TOPIC,
        "bind": True,
    }


def engine_env(
    base: Mapping[str, str],
    *,
    home: HomePaths,
    model: Model,
    options: EngineOptions,
    tiers: TierSettings | None,
    threads: int,
    scratch: Path,
) -> dict[str, str]:
    """The engine's environment: CPU path on, its threads, the guard's deadlines."""
    env = _isolated(base, home=home, scratch=scratch) | {
        "SGLANG_USE_CPU_ENGINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": str(threads),
        "PYTHONWARNINGS": "ignore",
        "LMCACHE_TRACK_USAGE": "false",
        # By default SGLang 0.5.23 (srt/observability/trace.py) sends traces by gRPC.
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    }
    if model.folder is not None:
        env["HF_HUB_OFFLINE"] = "1"
    if tiers is not None:
        env |= guard_environment(tiers)
    return env | dict(options.env)


def tier_argv(
    python: Path,
    *,
    tiers: TierSettings,
    home: HomePaths,
    port: int,
    http_port: int,
    prometheus_port: int,
    otlp_url: str | None = None,
) -> list[str]:
    """LMCache's server behind the guard's version check and encryption.

    Args:
        otlp_url: gRPC collector of its traces, and then of its metrics too, which it otherwise
            shows at `prometheus_port`.
    """
    arguments = server_arguments(
        tiers,
        host=LOOPBACK,
        port=port,
        http_port=http_port,
        prometheus_port=prometheus_port,
        shm_name=home.shared_memory_name,
        ssd_path=home.tier_disk,
    )
    traces = [] if otlp_url is None else ["--enable-tracing", "--otlp-endpoint", otlp_url]
    return [str(python), "-P", "-m", "foreword_guard.tier", *arguments, *traces]


def tier_env(
    base: Mapping[str, str], *, tiers: TierSettings, home: HomePaths, scratch: Path
) -> dict[str, str]:
    """The tier's environment: where its key is, and no calls home."""
    env = _isolated(base, home=home, scratch=scratch) | server_environment(tiers)
    return env | {"FOREWORD_KV_KEY_FILE": str(home.kv_key), "PYTHONWARNINGS": "ignore"}


def redis_argv(program: Path, *, port: int, largest_bytes: int) -> list[str]:
    """A Redis that is nothing but a cache: it forgets the least used, and all at its end."""
    argv = [str(program), "--bind", LOOPBACK, "--port", str(port), "--protected-mode", "yes"]
    argv += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
    return [*argv, "--maxmemory", str(largest_bytes), "--maxmemory-policy", "allkeys-lru"]


def redis_env(base: Mapping[str, str], *, home: HomePaths) -> dict[str, str]:
    return {**base, STACK_VARIABLE: home.identity}


def gateway_argv(python: Path) -> list[str]:
    return [str(python), "-P", "-m", "app.serve"]


def gateway_env(
    base: Mapping[str, str],
    *,
    home: HomePaths,
    cache: Path,
    host: str,
    port: int,
    engine_urls: Sequence[str],
    model: Model | None,
    tiers: TierSettings | None,
    tier_url: str | None = None,
    kv_events: str | None = None,
    kv_events_replay: str | None = None,
) -> dict[str, str]:
    """The gateway's settings, as ``FOREWORD_…`` variables.

    Args:
        engine_urls: the replicas, in the order of their names.
        tiers: what the engine loads from, so that a load's tier can be told where there is one.
        tier_url: LMCache's HTTP side, which knows what each request loaded.
        kv_events, kv_events_replay: addresses of the engine's KV events, where they are known.
        model: what this stack's engine serves, or None if the engine is somebody else's.
    """
    env = dict(base) | {
        STACK_VARIABLE: home.identity,
        "FOREWORD_HOME": str(home.root),
        "FOREWORD_CACHE": str(cache),
        "FOREWORD_GATEWAY__HOST": host,
        "FOREWORD_GATEWAY__PORT": str(port),
        "FOREWORD_ENGINE__URL": engine_urls[0],
    }
    if len(engine_urls) > 1:
        env["FOREWORD_REPLICAS__URLS"] = json.dumps(list(engine_urls))
    if tiers is not None:
        held = [Tier.GPU, *sorted(tiers.lmcache_tiers)]
        env["FOREWORD_ENGINE__TIERS"] = json.dumps([tier.value for tier in held])
    addresses = {
        "FOREWORD_TIERS__URL": tier_url,
        "FOREWORD_ENGINE__KV_EVENTS": kv_events,
        "FOREWORD_ENGINE__KV_EVENTS_REPLAY": kv_events_replay,
    }
    env |= {name: address for name, address in addresses.items() if address is not None}
    if model is not None and model.folder is not None:
        env["FOREWORD_ENGINE__MODEL"] = model.name
        env["FOREWORD_ENGINE__TOKENIZER"] = str(model.folder)
    return env


def gateway_drain_s(env: Mapping[str, str]) -> float:
    """How long the gateway waits for answers under way when it is stopped.

    What isn't a number is left to the gateway to refuse.
    """
    told = env.get("FOREWORD_GATEWAY__DRAIN_S", "")
    return float(told) if told.isdecimal() else DRAIN_S


def engine_threads(cores: int, *, engines: int = 1) -> int:
    """Threads for one engine's arithmetic: all engines' together are half of the cores.

    The other half is for its other processes and the gateway; a thread that waits for a core
    holds up all.
    """
    return max(1, cores // (2 * engines))


def _isolated(base: Mapping[str, str], *, home: HomePaths, scratch: Path) -> dict[str, str]:
    """Neither the gateway's Python paths nor shared metrics go there; temporary files are ours.

    The engine's environment is made without compiled files: the first start writes those it needs,
    whatever the user wants elsewhere, because without them each start takes twice as long.
    """
    foreign = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"}
    foreign |= {"PROMETHEUS_MULTIPROC_DIR"}  # one folder for two engines would add up their counts
    env = {name: value for name, value in base.items() if name not in foreign}
    return env | {STACK_VARIABLE: home.identity, "TMPDIR": str(scratch)}
