"""Who is asked: what it is, what its engines say of themselves, and emptying their caches.

Nothing here is on the measured path. What can't be found out stays unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import httpx

from bench.errors import TargetError
from bench.run_folder import EngineCounted, EngineFacts
from cache.engine_metrics import EngineSnapshot, delta, parse_engine_metrics
from cache.errors import MetricsFormatError

_TIMEOUT_S = 30.0
# Of a look at what may not be there: a proxy before nothing hangs, and there are several looks.
_LOOK_S = 5.0
_MEMORY = (
    "max_total_num_tokens",
    "max_total_tokens",
    "memory_usage",
    "kv_cache_dtype",
    "mem_fraction_static",
    "page_size",
    "context_length",
)
# What an engine was started with also holds what is nobody's business.
_SECRET = ("key", "password", "secret", "token_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found out of a target.

    Attributes:
        kind: `foreword`, `sglang`, `vllm` or `openai`.
        model: the first that it names.
        simulated: None: not known.
        engines: URLs of the engines, where they can be reached.
    """

    kind: str = "openai"
    model: str | None = None
    simulated: bool | None = None
    engines: tuple[str, ...] = ()
    engine: EngineFacts | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


class Control:
    """Asks a target about itself; `close` it."""

    def __init__(
        self, base_url: str, *, headers: Mapping[str, str], engine_urls: tuple[str, ...] = ()
    ) -> None:
        self._base_url = base_url
        self._engine_urls = engine_urls
        self._headers = dict(headers)
        self._http = httpx.Client(timeout=_TIMEOUT_S, trust_env=False)

    def close(self) -> None:
        """End its connections."""
        self._http.close()

    def find(self) -> Found:
        """Look at the target; what it doesn't answer is unknown."""
        kind, engines = self._kind()
        told = [info for url in engines if (info := self._json(f"{url}/server_info"))]
        simulated = any(info.get("engine") == "simulated" for info in told) if told else None
        return Found(
            kind=kind,
            model=self._model(),
            simulated=simulated,
            engines=engines,
            engine=_facts(told),
        )

    def reach(self) -> None:
        """Ask for anything at all.

        Raises:
            TargetError: nobody answers.
        """
        url = f"{self._base_url}/v1/models"
        try:
            self._http.get(url, headers=self._headers_for(url), timeout=_LOOK_S)
        except httpx.HTTPError as error:
            raise TargetError(self._base_url, f"can't be reached: {error}") from error

    def snapshots(self, engines: tuple[str, ...]) -> list[EngineSnapshot] | None:
        """Each engine's counters now; None: one of them doesn't tell."""
        try:
            answers = [
                self._http.get(f"{url}/metrics", headers=self._headers_for(url)) for url in engines
            ]
            at = datetime.now(UTC)
            return [parse_engine_metrics(answer.text, at=at) for answer in answers] or None
        except (httpx.HTTPError, MetricsFormatError):
            return None

    def flush(self, engines: tuple[str, ...]) -> None:
        """Empty the engines' own memory of KV. What lies in tiers behind it stays there.

        Raises:
            TargetError: there is no engine to ask, or one refuses.
        """
        if not engines:
            problem = "names no engine whose cache could be emptied: give --engine-url"
            raise TargetError(self._base_url, problem)
        for url in engines:
            try:
                answer = self._http.post(f"{url}/flush_cache", headers=self._headers_for(url))
            except httpx.HTTPError as error:
                raise TargetError(url, f"can't be asked to empty its cache: {error}") from error
            if not answer.is_success:
                raise TargetError(url, f"did not empty its cache: {answer.text[:200]}")

    def _headers_for(self, url: str) -> Mapping[str, str]:
        """The key is for the target and for engines that the caller named, not for all it names."""
        known = tuple(f"{each}/" for each in (self._base_url, *self._engine_urls))
        return self._headers if f"{url}/".startswith(known) else {}

    def _kind(self) -> tuple[str, tuple[str, ...]]:
        if (replicas := self._json(f"{self._base_url}/foreword/replicas")) is not None:
            urls = (each.get("url") for each in replicas.get("data", ()))
            return "foreword", self._engine_urls or tuple(url.rstrip("/") for url in urls if url)
        if self._json(f"{self._base_url}/foreword/templates") is not None:
            return "foreword", self._engine_urls
        if self._json(f"{self._base_url}/server_info") is not None:
            return "sglang", self._engine_urls or (self._base_url,)
        if "version" in (self._json(f"{self._base_url}/version") or {}):
            return "vllm", self._engine_urls
        return "openai", self._engine_urls

    def _model(self) -> str | None:
        listed = self._json(f"{self._base_url}/v1/models") or {}
        return next((str(card["id"]) for card in listed.get("data", ()) if "id" in card), None)

    def _json(self, url: str) -> dict[str, Any] | None:
        """None: nobody there, no such route, or no object."""
        try:
            answer = self._http.get(url, headers=self._headers_for(url), timeout=_LOOK_S)
            told = answer.json() if answer.is_success else None
        except (httpx.HTTPError, ValueError):
            return None
        return told if isinstance(told, dict) else None


def counted(
    before: list[EngineSnapshot] | None, after: list[EngineSnapshot] | None
) -> EngineCounted | None:
    """What all engines counted in between; None: unknown, or one of them started anew."""
    if before is None or after is None:
        return None
    deltas = [delta(earlier, later) for earlier, later in zip(before, after, strict=True)]
    if any(each.resets for each in deltas):
        return None
    return EngineCounted(
        prompt_tokens=sum(each.prompt_tokens for each in deltas),
        cached_tokens=sum(series.tokens for each in deltas for series in each.cached),
        requests=sum(each.requests for each in deltas),
    )


def _facts(told: list[dict[str, Any]]) -> EngineFacts | None:
    """Of the first engine; all of one target are alike, or the run is worth nothing."""
    if not told:
        return None
    info = told[0]
    flags = {name: _shown(value) for name, value in info.items() if _is_flag(name, value)}
    memory = {name: info[name] for name in _MEMORY if info.get(name) is not None}
    for state in info.get("internal_states") or ():
        if isinstance(state, dict) and state.get("memory_usage"):
            memory["memory_usage"] = state["memory_usage"]
    return EngineFacts(flags=flags, memory=memory | {"engines": len(told)})


def _is_flag(name: str, value: Any) -> bool:
    if value is None or any(secret in name for secret in _SECRET):
        return False
    return isinstance(value, bool | int | float | str)


def _shown(value: Any) -> Any:
    """A path says where it lies on that machine: only its last part is told."""
    if isinstance(value, str) and value.startswith("/"):
        return PurePosixPath(value).name
    return value
