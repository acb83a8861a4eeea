"""What the local stack is told: plain values, no environment read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.stack.backoff import RestartPolicy
from app.stack.deploy_files import DeployFiles
from app.stack.ports import LOOPBACK
from cache.tiers import LossySerde, TierSettings

DEFAULT_MODEL = "smollm2-135m-instruct"
DEFAULT_PORT = 8400
DEFAULT_HOME = Path("~/.local/share/foreword")
DEFAULT_CACHE = Path("~/.cache/foreword")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How SGLang runs on the CPU.

    Attributes:
        pool_tokens: tokens that the KV pool (tier G1) holds. The default model takes 46 kB each.
        dtype: float32 is several times faster than bfloat16 on a CPU without AMX.
        arguments: further arguments of SGLang, as they are.
        env: further environment variables.
    """

    page_size: int = 16
    pool_tokens: int = 16_000
    dtype: str = "float32"
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """The whole local stack.

    Attributes:
        model: the default model's name, a folder, or a hub's name.
        engine_url: a running SGLang; then neither engine nor tiers are started.
        replicas: engines that are started, all with the same model and options.
        tiers: LMCache's tiers, or None for none.
        kv_serde: makes KV smaller below RAM; what it must know of the model is read from its files.
        redis: whether to start a Redis of its own as tier G4.
        gateway: whether to start the gateway.
        port: the gateway's; 0 takes a free one. The others are always free loopback ports.
        cpu: run the engine on the CPU though the machine has a GPU.
        traces_url: OTLP/HTTP address that the engines send their traces to; None: none are made.
        tiers_otlp_url: OTLP/gRPC address that LMCache sends traces and metrics to.
        database_url: the gateway's, where it is no file in the home.
        base_env: what the processes inherit.
        folder: where the gateway looks for files that its settings name without a root.
        deploy: what the engine's environment is made from; None finds it by itself.
    """

    home: Path
    cache: Path
    base_env: Mapping[str, str] = field(repr=False)
    model: str = DEFAULT_MODEL
    engine_url: str | None = None
    engine: EngineOptions = EngineOptions()
    replicas: int = 1
    tiers: TierSettings | None = field(default_factory=TierSettings)
    kv_serde: LossySerde | None = None
    redis: bool = False
    redis_gb: float = 1.0
    gateway: bool = True
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    cpu: bool = False
    traces_url: str | None = None
    tiers_otlp_url: str | None = None
    database_url: str | None = field(default=None, repr=False)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    folder: Path = field(default_factory=Path.cwd)
    deploy: DeployFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What the engine serves.

    Attributes:
        name: the public name.
        path: what SGLang gets as ``--model-path``, literally; LMCache's keys carry it.
        folder: where its files are, or None if SGLang fetches it from a hub.
    """

    name: str
    path: str
    folder: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePorts:
    """The loopback ports of one engine."""

    http: int
    kv_events: int
    kv_events_replay: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The stack's loopback ports."""

    engines: tuple[EnginePorts, ...]
    tier: int
    tier_http: int
    tier_prometheus: int
    redis: int
    gateway: int
