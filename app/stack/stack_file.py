"""``run/stack.json``: how others find a running stack. Written whole, removed at the end."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app.stack.files import write_whole

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """One process: ``pid`` is None while it does not run."""

    pid: int | None
    leash_pid: int | None
    state: str
    restarts: int
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """What ``stack.json`` says. An address is None where there is no such part.

    Attributes:
        started: ISO 8601, UTC.
        ready: whether everything has been ready once; until then the URL may not answer.
        url: the gateway.
        engine_url: the first engine; ``engine_urls`` has all.
        kv_events: of the only engine; several tell their own.
        tier_url: LMCache's HTTP side (health, metrics).
        tier_address: where the engine reaches LMCache.
        model: its public name; ``model_path`` is SGLang's ``--model-path``.
        environment: the engine's venv.
    """

    pid: int
    started: str
    ready: bool
    home: str
    url: str | None
    engine_url: str
    kv_events: str | None
    tier_url: str | None
    tier_address: str | None
    redis_url: str | None
    model: str | None
    model_path: str | None
    environment: str | None
    engine_urls: tuple[str, ...] = ()
    processes: Mapping[str, ProcessFacts] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


def write_stack_file(path: Path, facts: StackFacts) -> None:
    write_whole(path, json.dumps(asdict(facts), indent=2).encode(), durable=False)


def read_stack_file(path: Path) -> StackFacts | None:
    """The facts, or None if there is no file, or one of another release.

    A file may outlive a stack whose supervisor was killed: ask the address, or the lock.
    """
    try:
        raw: Any = json.loads(path.read_bytes())
        if raw["schema_version"] != SCHEMA_VERSION:
            return None
        processes = {name: ProcessFacts(**facts) for name, facts in raw.pop("processes").items()}
        urls = tuple(raw.pop("engine_urls", None) or (raw["engine_url"],))
        return StackFacts(processes=processes, engine_urls=urls, **raw)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
