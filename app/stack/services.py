"""The stack's services, from settings: what runs, when it is ready, how long that takes."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from app.stack import commands, health
from app.stack.errors import ProgramMissingError
from app.stack.keeper import Service
from app.stack.parts import StackParts
from app.stack.paths import ORPHAN_PREFIXES
from app.stack.ports import LOOPBACK
from app.stack.process import ProcessSpec
from app.stack.settings import EnginePorts, Model, StackSettings
from cache.tiers import TierSettings

ASK_S = 5.0
GENERATE_S = 90.0
GIB = 1024**3
REDIS_PORT = 6379
ENGINES = "engines"


def build_services(parts: StackParts) -> list[Service]:
    """In the order of starting: Redis, tier, engines, gateway.

    Raises:
        ProgramMissingError: Redis is asked for and not installed.
    """
    services = []
    if parts.environment is not None and parts.model is not None:
        if parts.tiers is not None:
            if parts.settings.redis:
                services.append(_redis(parts))
            services.append(_tier(parts, parts.environment.python, parts.tiers))
        services.extend(
            _engine(parts, parts.environment.python, parts.model, number=number, ports=ports)
            for number, ports in enumerate(parts.ports.engines)
        )
    if parts.settings.gateway:
        services.append(_gateway(parts))
    return services


def engine_name(number: int) -> str:
    """As the gateway names its replicas too."""
    return f"engine-{number}"


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
        otlp_url=parts.settings.tiers_otlp_url,
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


def _engine(
    parts: StackParts, python: Path, model: Model, *, number: int, ports: EnginePorts
) -> Service:
    argv = commands.engine_argv(
        python,
        model=model,
        options=parts.settings.engine,
        port=ports.http,
        kv_events_port=ports.kv_events,
        kv_events_replay_port=ports.kv_events_replay,
        tier_settings=None if parts.tiers is None else parts.home.tier_settings,
        traces_url=parts.settings.traces_url,
    )
    env = commands.engine_env(
        parts.settings.base_env,
        home=parts.home,
        model=model,
        options=parts.settings.engine,
        tiers=parts.tiers,
        threads=commands.engine_threads(parts.cores, engines=len(parts.ports.engines)),
        scratch=parts.scratch,
    )
    from_hub = model.folder is None
    return _service(
        parts,
        engine_name(number),
        argv,
        env,
        ready=lambda: engine_is_ready(f"http://{LOOPBACK}:{ports.http}"),
        ready_within_s=7200.0 if from_hub else 600.0,
        usually="a minute, and the model's download" if from_hub else "15 to 60 s",
        # SGLang looks for open requests every 5 s, and then ends its processes.
        stop_grace_s=20.0,
        orphans=ORPHAN_PREFIXES,
        # The guard waits for the tier, when the model is loaded; the tier is up by then.
        beside=True,
        kind=ENGINES,
    )


def _gateway(parts: StackParts) -> Service:
    env = commands.gateway_env(
        parts.settings.base_env,
        home=parts.home,
        cache=parts.settings.cache,
        host=parts.settings.host,
        port=parts.ports.gateway,
        engine_urls=parts.engine_urls,
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
        stop_grace_s=commands.gateway_drain_s(env) + 5.0,
        cwd=parts.settings.folder,
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
    kind: str | None = None,
    cwd: Path | None = None,
    shared_memory: tuple[str, ...] = (),
    orphans: tuple[str, ...] = (),
) -> Service:
    spec = ProcessSpec(
        argv=tuple(argv),
        env=env,
        cwd=cwd or parts.home.run,
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
        kind=kind or name,
    )
