"""The stack's services, from settings: what runs, when it is ready, how long that takes."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from app.stack import commands, health
from app.stack.environment_plan import EngineEnvironment
from app.stack.errors import KvSerdeError, ProgramMissingError
from app.stack.keeper import Service
from app.stack.model import read_head_dim
from app.stack.paths import ORPHAN_PREFIXES, HomePaths
from app.stack.ports import LOOPBACK
from app.stack.process import ProcessSpec
from app.stack.settings import Model, Ports, StackSettings
from cache.errors import TierSettingsError
from cache.tiers import LossySerde, RedisTier, TierSettings

ASK_S = 5.0
GENERATE_S = 90.0
GIB = 1024**3
REDIS_PORT = 6379


@dataclass(frozen=True, slots=True, kw_only=True)
class StackParts:
    """All that the services are made from.

    Attributes:
        environment: None if the engine is somebody else's.
        tiers: as asked for, Redis' address included.
        scratch: TMPDIR of engine and tier.
        cores: how many cores this process may use.
    """

    settings: StackSettings
    home: HomePaths
    ports: Ports
    environment: EngineEnvironment | None
    model: Model | None
    tiers: TierSettings | None
    scratch: Path
    cores: int

    @property
    def engine_url(self) -> str:
        return self.settings.engine_url or f"http://{LOOPBACK}:{self.ports.engine}"

    @property
    def tier_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.tier_http}"

    @property
    def kv_events(self) -> str | None:
        """ZMQ address of the engine's KV events, unless its own arguments say otherwise."""
        return f"tcp://{LOOPBACK}:{self.ports.kv_events}" if self._own_kv_events else None

    @property
    def kv_events_replay(self) -> str | None:
        """Where KV events can be asked for again."""
        return f"tcp://{LOOPBACK}:{self.ports.kv_events_replay}" if self._own_kv_events else None

    @property
    def _own_kv_events(self) -> bool:
        named = commands.KV_EVENTS_OPTION in self.settings.engine.arguments
        return self.environment is not None and not named

    @property
    def gateway_url(self) -> str:
        host = LOOPBACK if self.settings.host in {"0.0.0.0", "::"} else self.settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.ports.gateway}"


def stack_tiers(settings: StackSettings, ports: Ports, model: Model | None) -> TierSettings | None:
    """The tiers with the stack's own Redis as G4 and a lossy serde, if those are wanted.

    Raises:
        KvSerdeError: the serde doesn't fit the model.
    """
    tiers = settings.tiers
    if tiers is None or not tiers.enabled:
        return None
    if settings.redis:
        own = RedisTier(host=LOOPBACK, port=ports.redis, max_gb=settings.redis_gb)
        tiers = replace(tiers, redis=own)
    if settings.kv_serde is not None:
        tiers = _with_serde(tiers, settings.kv_serde, model)
    return tiers


def _with_serde(tiers: TierSettings, serde: LossySerde, model: Model | None) -> TierSettings:
    head_dim = None
    if serde.needs_head_dim:
        head_dim = None if model is None or model.folder is None else read_head_dim(model.folder)
    try:
        return replace(tiers, serde=serde, head_dim=head_dim)
    except TierSettingsError as error:
        raise KvSerdeError(serde=serde.value, problem=str(error)) from error


def build_services(parts: StackParts) -> list[Service]:
    """In the order of starting: Redis, tier, engine, gateway.

    Raises:
        ProgramMissingError: Redis is asked for and not installed.
    """
    services = []
    if parts.environment is not None and parts.model is not None:
        if parts.tiers is not None:
            if parts.settings.redis:
                services.append(_redis(parts))
            services.append(_tier(parts, parts.environment.python, parts.tiers))
        services.append(_engine(parts, parts.environment.python, parts.model))
    if parts.settings.gateway:
        services.append(_gateway(parts))
    return services


def redis_address(url: str) -> tuple[str, int]:
    """Host and port of a ``redis://`` URL."""
    parts = urlsplit(url)
    return parts.hostname or LOOPBACK, parts.port or REDIS_PORT


def engine_is_ready(url: str) -> bool:
    """``/ready`` first, which is cheap; then one generated token, which proves the whole path."""
    if not health.get(f"{url}/ready", timeout_s=ASK_S).good:
        return False
    return health.get(f"{url}/health_generate", timeout_s=GENERATE_S).good


def redis_program(settings: StackSettings) -> Path:
    """Redis' server.

    Raises:
        ProgramMissingError: it is not installed.
    """
    program = shutil.which("redis-server", path=settings.base_env.get("PATH"))
    if program is None:
        raise ProgramMissingError(program="redis-server", package="redis-server")
    return Path(program)


def _redis(parts: StackParts) -> Service:
    port = parts.ports.redis
    largest_bytes = int(parts.settings.redis_gb * GIB)
    argv = commands.redis_argv(
        redis_program(parts.settings), port=port, largest_bytes=largest_bytes
    )
    return _service(
        parts,
        "redis",
        argv,
        commands.redis_env(parts.settings.base_env, home=parts.home),
        ready=lambda: health.redis_answers(LOOPBACK, port, timeout_s=ASK_S),
        ready_within_s=30.0,
        usually="under a second",
        stop_grace_s=5.0,
        essential=False,
    )


def _tier(parts: StackParts, python: Path, tiers: TierSettings) -> Service:
    argv = commands.tier_argv(
        python,
        tiers=tiers,
        home=parts.home,
        port=parts.ports.tier,
        http_port=parts.ports.tier_http,
        prometheus_port=parts.ports.tier_prometheus,
    )
    return _service(
        parts,
        "tier",
        argv,
        commands.tier_env(
            parts.settings.base_env, tiers=tiers, home=parts.home, scratch=parts.scratch
        ),
        ready=lambda: health.get(f"{parts.tier_url}/healthcheck", timeout_s=ASK_S).good,
        ready_within_s=180.0,
        usually="7 to 15 s",
        stop_grace_s=10.0,
        essential=False,
        shared_memory=parts.home.shared_memory_prefixes,
        orphans=ORPHAN_PREFIXES,
    )


def _engine(parts: StackParts, python: Path, model: Model) -> Service:
    argv = commands.engine_argv(
        python,
        model=model,
        options=parts.settings.engine,
        port=parts.ports.engine,
        kv_events_port=parts.ports.kv_events,
        kv_events_replay_port=parts.ports.kv_events_replay,
        tier_settings=None if parts.tiers is None else parts.home.tier_settings,
    )
    env = commands.engine_env(
        parts.settings.base_env,
        home=parts.home,
        model=model,
        options=parts.settings.engine,
        tiers=parts.tiers,
        threads=commands.engine_threads(parts.cores),
        scratch=parts.scratch,
    )
    from_hub = model.folder is None
    return _service(
        parts,
        "engine",
        argv,
        env,
        ready=lambda: engine_is_ready(parts.engine_url),
        ready_within_s=7200.0 if from_hub else 600.0,
        usually="a minute, and the model's download" if from_hub else "15 to 60 s",
        # SGLang looks for open requests every 5 s, and then ends its processes.
        stop_grace_s=20.0,
        orphans=ORPHAN_PREFIXES,
        # The guard waits for the tier, when the model is loaded; the tier is up by then.
        beside=True,
    )


def _gateway(parts: StackParts) -> Service:
    env = commands.gateway_env(
        parts.settings.base_env,
        home=parts.home,
        cache=parts.settings.cache,
        host=parts.settings.host,
        port=parts.ports.gateway,
        engine_url=parts.engine_url,
        model=parts.model,
        tiers=parts.tiers,
        tier_url=None if parts.tiers is None else parts.tier_url,
        kv_events=parts.kv_events,
        kv_events_replay=parts.kv_events_replay,
    )
    return _service(
        parts,
        "gateway",
        commands.gateway_argv(Path(sys.executable)),
        env,
        ready=lambda: health.get(f"{parts.gateway_url}/livez", timeout_s=ASK_S).good,
        ready_within_s=120.0,
        usually="3 to 10 s",
        # Longer than the gateway's own patience with open requests.
        stop_grace_s=35.0,
    )


def _service(
    parts: StackParts,
    name: str,
    argv: list[str],
    env: dict[str, str],
    *,
    ready: Callable[[], bool],
    ready_within_s: float,
    usually: str,
    stop_grace_s: float,
    essential: bool = True,
    beside: bool = False,
    shared_memory: tuple[str, ...] = (),
    orphans: tuple[str, ...] = (),
) -> Service:
    spec = ProcessSpec(
        argv=tuple(argv),
        env=env,
        cwd=parts.home.run,
        stop_grace_s=stop_grace_s,
        shared_memory=shared_memory,
        orphans=orphans,
    )
    return Service(
        name=name,
        spec=spec,
        ready=ready,
        ready_within_s=ready_within_s,
        usually=usually,
        log=parts.home.log(name),
        restart=parts.settings.restart,
        essential=essential,
        beside=beside,
    )
