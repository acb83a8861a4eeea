"""The local stack as a library: ``with start_stack(settings) as stack: …``.

The same code is behind ``foreword up`` and the test fixtures.
"""

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from app.admission.direct import keys_exist
from app.stack import files
from app.stack.deploy_files import DeployFiles, find_deploy_files
from app.stack.environment import ensure_environment
from app.stack.environment_plan import EngineEnvironment, EnvironmentPlan, plan_environment
from app.stack.errors import (
    AlreadyRunningError,
    EngineUnreachableError,
    GpuMachineError,
    HostNeedsKeysError,
)
from app.stack.health import get
from app.stack.leftovers import end_leftovers
from app.stack.model import ModelMaker, ensure_default_model, find_model
from app.stack.parts import StackParts, stack_tiers
from app.stack.paths import LONGEST_SOCKET_FOLDER_BYTES, CachePaths, HomePaths, resolve
from app.stack.ports import LOOPBACK, claim_port, free_ports, is_loopback
from app.stack.progress import Say, silent
from app.stack.running import RunningStack, describe
from app.stack.services import ASK_S, build_services, redis_program
from app.stack.settings import EnginePorts, Model, Ports, StackSettings
from app.stack.stack_file import read_stack_file, write_stack_file
from app.stack.supervisor import Supervisor
from cache.tiers import engine_config


@contextlib.contextmanager
def start_stack(settings: StackSettings, *, say: Say = silent) -> Iterator[RunningStack]:
    """Starts the stack, and stops it at the end of the block, whatever ends it.

    Makes the engine's environment and the default model first if they are missing.

    Raises:
        StackError: it could not be started; nothing of it is left.
    """
    model = _refuse_early(settings)
    home = HomePaths(resolve(settings.home))
    with contextlib.ExitStack() as opened:
        opened.enter_context(_hold(home))
        _clear_leftovers(home, say)
        _require_port(settings)
        environment = None
        if settings.engine_url is None:
            environment, model = ensure_engine(settings, model, say=say)
        scratch = opened.enter_context(_scratch(home))
        ports = _choose_ports(settings)
        parts = StackParts(
            settings=settings,
            home=home,
            ports=ports,
            environment=environment,
            model=model,
            tiers=None if environment is None else stack_tiers(settings, ports, model),
            scratch=scratch,
            cores=len(os.sched_getaffinity(0)),
        )
        yield opened.enter_context(_run(parts, say))


def ensure_engine(
    settings: StackSettings, model: Model | None, *, say: Say
) -> tuple[EngineEnvironment, Model]:
    """The engine's environment and its model, both made if need be.

    Args:
        model: as ``find_model`` says; None is the default model.
    """
    if not settings.cpu and has_nvidia_gpu(settings):
        raise GpuMachineError
    deploy = settings.deploy or find_deploy_files()
    cache = CachePaths(resolve(settings.cache))
    environment = ensure_environment(engine_plan(settings, deploy), say=say)
    maker = ModelMaker(
        environment=environment, files=deploy, models=cache.models, base_env=settings.base_env
    )
    return environment, model or ensure_default_model(maker, say=say)


def engine_plan(settings: StackSettings, deploy: DeployFiles) -> EnvironmentPlan:
    cache = CachePaths(resolve(settings.cache))
    return plan_environment(deploy, engines=cache.engines, base_env=settings.base_env)


def has_nvidia_gpu(settings: StackSettings) -> bool:
    """Whether NVIDIA's driver and its tool are here."""
    tool = shutil.which("nvidia-smi", path=settings.base_env.get("PATH"))
    return tool is not None and Path("/dev/nvidiactl").exists()


@contextlib.contextmanager
def _hold(home: HomePaths) -> Iterator[None]:
    """The home's lock, with the folders made."""
    files.private_folder(home.root)
    files.private_folder(home.run)
    files.private_folder(home.logs)
    descriptor = files.try_lock(home.lock)
    if descriptor is None:
        facts = read_stack_file(home.stack_file)
        raise AlreadyRunningError(
            home=home.root,
            pid=None if facts is None else facts.pid,
            url=None if facts is None else facts.url,
        )
    try:
        yield
    finally:
        os.close(descriptor)


def _refuse_early(settings: StackSettings) -> Model | None:
    """What cannot work is refused before anything is made; returns the model, if known by then."""
    if not is_loopback(settings.host) and not keys_exist(
        resolve(settings.home), settings.database_url
    ):
        raise HostNeedsKeysError(host=settings.host)
    if settings.redis:
        redis_program(settings)
    if settings.engine_url is None:
        return find_model(settings.model)
    answer = get(f"{settings.engine_url}/ready", timeout_s=ASK_S)
    if not answer.good:
        problem = answer.problem or f"/ready answered {answer.status}"
        raise EngineUnreachableError(url=settings.engine_url, problem=problem)
    return None


def _require_port(settings: StackSettings) -> None:
    """Asked before the minutes of an installation, and chosen after them."""
    if settings.gateway:
        claim_port(settings.host, settings.port)


def _clear_leftovers(home: HomePaths, say: Say) -> None:
    killed, unlinked = end_leftovers(home)
    if killed or unlinked:
        say(
            f"an earlier run was killed: ended {len(killed)} of its processes, "
            f"removed {len(unlinked)} of its shared memory segments"
        )
    home.stack_file.unlink(missing_ok=True)


def _choose_ports(settings: StackSettings) -> Ports:
    # All at once: ports that are free one after the other may be the same.
    free = iter(free_ports(3 * settings.replicas + 4))
    engines = tuple(
        EnginePorts(http=next(free), kv_events=next(free), kv_events_replay=next(free))
        for _ in range(settings.replicas)
    )
    tier, tier_http, tier_prometheus, redis = free
    return Ports(
        engines=engines,
        tier=tier,
        tier_http=tier_http,
        tier_prometheus=tier_prometheus,
        redis=redis,
        gateway=claim_port(settings.host, settings.port) if settings.gateway else 0,
    )


@contextlib.contextmanager
def _scratch(home: HomePaths) -> Iterator[Path]:
    """An empty folder for the processes' temporary files; SGLang puts its sockets there."""
    shutil.rmtree(home.scratch, ignore_errors=True)
    if len(os.fsencode(home.scratch)) > LONGEST_SOCKET_FOLDER_BYTES:
        with tempfile.TemporaryDirectory(prefix="foreword-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    try:
        yield files.private_folder(home.scratch)
    finally:
        shutil.rmtree(home.scratch, ignore_errors=True)


@contextlib.contextmanager
def _run(parts: StackParts, say: Say) -> Iterator[RunningStack]:
    services = build_services(parts)
    if parts.tiers is not None:
        _write_tier_files(parts)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    writing = threading.Lock()
    ready = threading.Event()
    ended = threading.Event()

    def write_facts() -> None:
        with writing:
            if not ended.is_set():
                facts = describe(parts, supervisor, started=started, ready=ready.is_set())
                try:
                    write_stack_file(parts.home.stack_file, facts)
                except OSError as exc:  # a full disk must not end the thread that restarts
                    say(f"{parts.home.stack_file} could not be written: {exc.strerror}")

    supervisor = Supervisor(services, say=say, on_change=write_facts)
    try:
        supervisor.start()
        ready.set()
        write_facts()
        yield RunningStack(parts, supervisor)
    finally:
        supervisor.stop()
        with writing:
            ended.set()
            parts.home.stack_file.unlink(missing_ok=True)


def _write_tier_files(parts: StackParts) -> None:
    assert parts.tiers is not None
    files.ensure_kv_key(parts.home.kv_key)
    files.private_folder(parts.home.tier_disk)
    yaml = engine_config(parts.tiers, host=LOOPBACK, port=parts.ports.tier)
    files.write_whole(parts.home.tier_settings, yaml.encode(), durable=False)
