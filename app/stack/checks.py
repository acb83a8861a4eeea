"""What ``foreword doctor`` looks at. Each check answers with what it found and what to do."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from app.gateway_file import announced_url
from app.stack import files
from app.stack.check import Check, note, ok, problem
from app.stack.deploy_files import find_deploy_files
from app.stack.environment import find_problem
from app.stack.errors import PortTakenError, StackError
from app.stack.leftovers import marked_processes, shared_memory
from app.stack.live_checks import gateway_alone, live_checks
from app.stack.paths import CachePaths, HomePaths, resolve
from app.stack.ports import claim_port
from app.stack.settings import StackSettings
from app.stack.stack import engine_plan, has_nvidia_gpu
from app.stack.stack_file import StackFacts, read_stack_file

GB = 1_000_000_000
LOW_DISK_BYTES = 2 * GB


def run_checks(settings: StackSettings) -> Iterator[Check]:
    """All checks, in an order in which an early problem explains the later ones."""
    home = HomePaths(resolve(settings.home))
    cache = CachePaths(resolve(settings.cache))
    yield _folder("home", home.root)
    yield _folder("cache", cache.root)
    yield from _key(home)
    yield from _disk(home.root, cache.root)
    facts = running_facts(home)
    if facts is None:
        yield _environment(settings, None)
    elif facts.environment is not None:
        yield _environment(settings, Path(facts.environment))
    key, served = settings.base_env.get("FOREWORD_API_KEY"), announced_url(settings.home)
    if facts is not None:
        yield from live_checks(facts, key=key)
    elif served is not None:
        yield note("stack", "none runs in this home, but a gateway of `foreword serve` does")
        yield from gateway_alone(served, key=key)
    else:
        yield from _stopped(settings, home)


def _folder(name: str, path: Path) -> Check:
    if not path.exists():
        return note(name, f"{path} is not there yet; `foreword up` makes it")
    if not path.is_dir():
        return problem(name, f"{path} is no folder", "move it away, or choose another place")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return problem(name, f"{path} cannot be written", f"`chown -R $USER {path}`")
    if name == "home" and path.stat().st_mode & 0o077:
        return problem(name, f"others can enter {path}", f"`chmod 700 {path}`")
    return ok(name, str(path))


def _key(home: HomePaths) -> Iterator[Check]:
    """The key of KV at rest."""
    if not home.kv_key.exists():
        return
    facts = home.kv_key.stat()
    if facts.st_mode & 0o077:
        yield problem("key", f"others can read {home.kv_key}", f"`chmod 600 {home.kv_key}`")
    elif facts.st_size != files.KV_KEY_BYTES:
        yield problem(
            "key",
            f"{home.kv_key} is damaged",
            f"remove it and {home.tier_disk}; the next `foreword up` makes a new one",
        )
    else:
        yield ok("key", "the key of the KV on disk is in place, mode 0600")


def _disk(*paths: Path) -> Iterator[Check]:
    for path in paths:
        there = next(each for each in (path, *path.parents) if each.exists())
        free = shutil.disk_usage(there).free
        found = f"{free / GB:.1f} GB free for {path}"
        if free < LOW_DISK_BYTES:
            yield problem("disk", found, "free some, or choose a folder on another disk")
        else:
            yield ok("disk", found)


def _environment(settings: StackSettings, running: Path | None) -> Check:
    """The environment that the next start would use.

    Args:
        running: the one that the running stack uses.
    """
    name = "engine environment"
    if has_nvidia_gpu(settings) and not settings.cpu:
        return note(name, "this machine has a GPU: SGLang comes from its image, see README")
    try:
        plan = engine_plan(settings, settings.deploy or find_deploy_files())
    except StackError as exc:
        return problem(name, str(exc), "install Foreword again")
    if running is not None and running != plan.path:
        found = "the running stack uses another one than this release's"
        return note(name, found, "start again to use the new one")
    if not plan.path.exists():
        return note(name, "not made yet", "`foreword up` makes it (about 2 GB, once)")
    fault = find_problem(plan)
    if fault is not None:
        return problem(name, f"{fault} ({plan.path})", "`foreword up` repairs it")
    return ok(name, f"complete: {plan.path}")


def running_facts(home: HomePaths) -> StackFacts | None:
    """The facts of a stack that holds the home's lock now."""
    if not home.lock.exists():
        return None
    descriptor = files.try_lock(home.lock)
    if descriptor is not None:
        os.close(descriptor)
        return None
    return read_stack_file(home.stack_file)


def _stopped(settings: StackSettings, home: HomePaths) -> Iterator[Check]:
    yield note("stack", "none runs in this home", "`foreword up` starts it")
    processes, segments = marked_processes(home), shared_memory(home)
    if processes or segments:
        yield problem(
            "leftovers",
            f"{len(processes)} processes and {len(segments)} shared memory segments of a stack "
            "that was killed",
            "`foreword up` removes them",
        )
    try:
        claim_port(settings.host, settings.port)
    except PortTakenError as exc:
        yield note("port", f"port {exc.port} is taken", "start with `foreword up --port 0`")
    else:
        yield ok("port", f"port {settings.port} is free")
