"""What ``foreword doctor`` looks at. Each check answers with what it found and what to do."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.stack import files, health
from app.stack.deploy_files import find_deploy_files
from app.stack.environment import find_problem
from app.stack.errors import PortTakenError, StackError
from app.stack.leftovers import marked_processes, shared_memory
from app.stack.paths import CachePaths, HomePaths, resolve
from app.stack.ports import claim_port
from app.stack.services import redis_address
from app.stack.settings import StackSettings
from app.stack.stack import engine_plan, has_nvidia_gpu
from app.stack.stack_file import StackFacts, read_stack_file

ASK_S = 10.0
GB = 1_000_000_000
LOW_DISK_BYTES = 2 * GB
BREAKER_METRIC = "foreword_tier_open"


class Status(StrEnum):
    """``NOTE`` is worth knowing and no fault; only ``PROBLEM`` makes the exit status 1."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at: what was found, and what to do about it, if anything."""

    name: str
    status: Status
    found: str
    advice: str | None = None


def run_checks(settings: StackSettings) -> Iterator[Check]:
    """All checks, in an order in which an early problem explains the later ones."""
    home = HomePaths(resolve(settings.home))
    cache = CachePaths(resolve(settings.cache))
    yield _folder("home", home.root)
    yield _folder("cache", cache.root)
    yield from _key(home)
    yield from _disk(home.root, cache.root)
    facts = _running(home)
    if facts is None:
        yield _environment(settings, None)
    elif facts.environment is not None:
        yield _environment(settings, Path(facts.environment))
    if facts is None:
        yield from _stopped(settings, home)
    else:
        yield from _live(facts)


def _ok(name: str, found: str) -> Check:
    return Check(name=name, status=Status.OK, found=found)


def _note(name: str, found: str, advice: str | None = None) -> Check:
    return Check(name=name, status=Status.NOTE, found=found, advice=advice)


def _problem(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=Status.PROBLEM, found=found, advice=advice)


def _folder(name: str, path: Path) -> Check:
    if not path.exists():
        return _note(name, f"{path} is not there yet; `foreword up` makes it")
    if not path.is_dir():
        return _problem(name, f"{path} is no folder", "move it away, or choose another place")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return _problem(name, f"{path} cannot be written", f"`chown -R $USER {path}`")
    if name == "home" and path.stat().st_mode & 0o077:
        return _problem(name, f"others can enter {path}", f"`chmod 700 {path}`")
    return _ok(name, str(path))


def _key(home: HomePaths) -> Iterator[Check]:
    """The key of KV at rest."""
    if not home.kv_key.exists():
        return
    facts = home.kv_key.stat()
    if facts.st_mode & 0o077:
        yield _problem("key", f"others can read {home.kv_key}", f"`chmod 600 {home.kv_key}`")
    elif facts.st_size != files.KV_KEY_BYTES:
        yield _problem(
            "key",
            f"{home.kv_key} is damaged",
            f"remove it and {home.tier_disk}; the next `foreword up` makes a new one",
        )
    else:
        yield _ok("key", "the key of the KV on disk is in place, mode 0600")


def _disk(*paths: Path) -> Iterator[Check]:
    for path in paths:
        there = next(each for each in (path, *path.parents) if each.exists())
        free = shutil.disk_usage(there).free
        found = f"{free / GB:.1f} GB free for {path}"
        if free < LOW_DISK_BYTES:
            yield _problem("disk", found, "free some, or choose a folder on another disk")
        else:
            yield _ok("disk", found)


def _environment(settings: StackSettings, running: Path | None) -> Check:
    """The environment that the next start would use.

    Args:
        running: the one that the running stack uses.
    """
    name = "engine environment"
    if has_nvidia_gpu(settings) and not settings.cpu:
        return _note(name, "this machine has a GPU: SGLang comes from its image, see README")
    try:
        plan = engine_plan(settings, settings.deploy or find_deploy_files())
    except StackError as exc:
        return _problem(name, str(exc), "install Foreword again")
    if running is not None and running != plan.path:
        found = "the running stack uses another one than this release's"
        return _note(name, found, "start again to use the new one")
    if not plan.path.exists():
        return _note(name, "not made yet", "`foreword up` makes it (about 2 GB, once)")
    problem = find_problem(plan)
    if problem is not None:
        return _problem(name, f"{problem} ({plan.path})", "`foreword up` repairs it")
    return _ok(name, f"complete: {plan.path}")


def _running(home: HomePaths) -> StackFacts | None:
    """The facts of a stack that holds the home's lock now."""
    if not home.lock.exists():
        return None
    descriptor = files.try_lock(home.lock)
    if descriptor is not None:
        os.close(descriptor)
        return None
    return read_stack_file(home.stack_file)


def _stopped(settings: StackSettings, home: HomePaths) -> Iterator[Check]:
    yield _note("stack", "none runs in this home", "`foreword up` starts it")
    processes, segments = marked_processes(home), shared_memory(home)
    if processes or segments:
        yield _problem(
            "leftovers",
            f"{len(processes)} processes and {len(segments)} shared memory segments of a stack "
            "that was killed",
            "`foreword up` removes them",
        )
    try:
        claim_port(settings.host, settings.port)
    except PortTakenError as exc:
        yield _note("port", f"port {exc.port} is taken", "start with `foreword up --port 0`")
    else:
        yield _ok("port", f"port {settings.port} is free")


def _live(facts: StackFacts) -> Iterator[Check]:
    if not facts.ready:
        yield _note("stack", f"pid {facts.pid} is still starting", "ask again in a minute")
    else:
        yield _ok("stack", f"pid {facts.pid}, started {facts.started}")
    for name, process in facts.processes.items():
        if process.pid is None:
            yield _problem(name, f"does not run ({process.state})", f"its log: {process.log}")
        elif process.restarts:
            yield _note(name, f"restarted {process.restarts} times", f"its log: {process.log}")
        else:
            yield _ok(name, f"pid {process.pid}, {process.state}")
    yield from _engine(facts.engine_url)
    yield from _tiers(facts)
    if facts.url is not None:
        yield from _gateway(facts.url)


def _engine(url: str) -> Iterator[Check]:
    ready = health.get(f"{url}/ready", timeout_s=ASK_S)
    if not ready.good:
        yield _problem("engine", f"{url} is not ready {_why(ready)}", "look at the engine's log")
        return
    info = health.get(f"{url}/server_info", timeout_s=ASK_S).json()
    if not isinstance(info, dict):
        yield _problem("engine", f"{url} does not describe itself", "is it SGLang 0.5.23?")
        return
    yield _ok("engine", f"SGLang {info.get('version', '(unknown version)')} is ready at {url}")
    if info.get("enable_cache_report"):
        yield _ok("cache report", "the engine reports re-used tokens")
    else:
        yield _problem(
            "cache report",
            "the engine doesn't report re-used tokens, so hit rates are unknown",
            "start SGLang with --enable-cache-report",
        )


def _tiers(facts: StackFacts) -> Iterator[Check]:
    if facts.tier_url is None:
        return
    answer = health.get(f"{facts.tier_url}/healthcheck", timeout_s=ASK_S)
    if answer.good:
        yield _ok("tiers", f"LMCache answers at {facts.tier_url}")
    else:
        yield _problem(
            "tiers",
            f"LMCache does not answer {_why(answer)}; requests are computed without it",
            "look at the tier's log",
        )
    metrics = health.get(f"{facts.engine_url}/metrics", timeout_s=ASK_S)
    is_open = breaker_is_open(metrics.body.decode(errors="replace"))
    if is_open is None:
        yield _note("breaker", "its state is unknown: the engine has no such metric")
    elif is_open:
        yield _problem("breaker", "open: the engine leaves the tiers alone", "wait, or see above")
    else:
        yield _ok("breaker", "closed: the engine uses the tiers")
    if facts.redis_url is not None and not health.redis_answers(
        *redis_address(facts.redis_url), timeout_s=ASK_S
    ):
        yield _problem("redis", f"{facts.redis_url} does not answer", "look at Redis' log")


def breaker_is_open(metrics: str) -> bool | None:
    """What the engine's Prometheus text says of the guard's breaker, None if it says nothing."""
    values = [
        line.rsplit(" ", 1)[1]
        for line in metrics.splitlines()
        if line.startswith((f"{BREAKER_METRIC} ", f"{BREAKER_METRIC}{{"))
    ]
    return any(float(value) > 0 for value in values) if values else None


def _gateway(url: str) -> Iterator[Check]:
    answer = health.get(f"{url}/readyz", timeout_s=ASK_S)
    body = answer.json()
    if not isinstance(body, dict) or "status" not in body:
        yield _problem("gateway", f"{url} does not answer {_why(answer)}", "look at its log")
        return
    reasons = "; ".join(str(reason) for reason in body.get("reasons", ()))
    if body["status"] == "ok":
        yield _ok("gateway", f"ready at {url}, token ids equal to the engine's")
    elif body["status"] == "degraded":
        yield _problem("gateway", f"works, but: {reasons}", "see docs, or the gateway's log")
    else:
        yield _problem("gateway", f"not ready: {reasons}", "ask again, or look at its log")


def _why(answer: health.HttpAnswer) -> str:
    return f"({answer.problem or f'status {answer.status}'})"
