"""Settings of the simulated engine: plain values, checked once, no I/O."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from bench.errors import SimulatorConfigError


class EvictionPolicy(StrEnum):
    """Which unlocked leaf goes first.

    Source: sglang 0.5.23 mem_cache/evict_policy.py, LRUStrategy and PriorityStrategy.
    """

    LRU = "lru"
    PRIORITY = "priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockConfig:
    """How long the simulated engine takes.

    The figures are stated, not measured: a simulated run predicts re-use, never milliseconds.

    Attributes:
        prefill_tokens_per_s: tokens computed per second of prefill.
        prefill_overhead_s: fixed cost of one prefill batch.
        decode_step_s: one decode step of all running requests.
        tier_lookup_s: asking the tier about one request.
        tier_tokens_per_s: tokens loaded from the tier per second.
        speedup: simulated seconds that pass in one real second.
    """

    prefill_tokens_per_s: float = 3000.0
    prefill_overhead_s: float = 0.01
    decode_step_s: float = 0.02
    tier_lookup_s: float = 0.005
    tier_tokens_per_s: float = 40_000.0
    speedup: float = 1.0

    def __post_init__(self) -> None:
        for name in ("prefill_tokens_per_s", "tier_tokens_per_s", "speedup"):
            if not getattr(self, name) > 0:
                raise SimulatorConfigError(name, "must be above 0")
        for name in ("prefill_overhead_s", "decode_step_s", "tier_lookup_s"):
            if getattr(self, name) < 0:
                raise SimulatorConfigError(name, "must be 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierConfig:
    """The storage behind the engine's own memory, as LMCache keeps it: whole chunks only."""

    chunk_tokens: int = 64
    capacity_tokens: int = 1_000_000
    backend: str = "LMCache"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsConfig:
    """Where KV events are published; ZeroMQ endpoints, `tcp://127.0.0.1:0` takes a free port."""

    endpoint: str = "tcp://127.0.0.1:0"
    replay_endpoint: str | None = None
    topic: str = ""
    buffer_steps: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallConfig:
    """A call that the model makes whenever it may call a tool.

    Attributes:
        text: as the model writes it, control tokens spelled out.
        name: of the tool, as the engine's parser of tool calls reads it out of the text.
        arguments: JSON text, likewise; or what else a model wrote.
    """

    text: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorConfig:
    """One simulated replica.

    Attributes:
        model_path: folder with tokenizer.json, tokenizer_config.json and a chat template.
        capacity_tokens: the KV pool (`--max-total-tokens`).
        context_tokens: the window (`--context-length`).
        eos_every_tokens: an answer ends by itself after so many tokens on average; None: never.
        opening: what every answer begins with.
        call: what it answers where it may call a tool; None: words, as always.
        script: instead, what it calls by the number of answers with calls among the messages, so
            that the same messages have the same answer; after the last entry it answers in words.
        reads_calls: whether it tells calls from text (`--tool-call-parser`).
        labels: the custom labels that are counted (`--tokenizer-metrics-allowed-custom-labels`).
        adapters: names of LoRA adapters; their KV is nobody else's.
        cache_report: whether usage tells cached tokens (`--enable-cache-report`).
    """

    model_path: Path
    served_model_name: str | None = None
    page_size: int = 16
    capacity_tokens: int = 16_000
    context_tokens: int = 8192
    max_running_requests: int = 64
    chunked_prefill_tokens: int = 4096
    eviction: EvictionPolicy = EvictionPolicy.LRU
    priority_scheduling: bool = False
    cache_report: bool = True
    labels: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    eos_every_tokens: int | None = None
    opening: str = ""
    call: CallConfig | None = None
    script: tuple[tuple[CallConfig, ...], ...] = ()
    reads_calls: bool = True
    clock: ClockConfig = field(default_factory=ClockConfig)
    tier: TierConfig | None = None
    events: EventsConfig | None = None

    def __post_init__(self) -> None:
        positive = ("page_size", "context_tokens", "max_running_requests", "chunked_prefill_tokens")
        for name in positive:
            if getattr(self, name) < 1:
                raise SimulatorConfigError(name, "must be 1 or more")
        if self.capacity_tokens < 2 * self.page_size:
            raise SimulatorConfigError("capacity_tokens", "must hold two pages or more")
        if self.tier is not None and self.tier.chunk_tokens % self.page_size:
            raise SimulatorConfigError(
                "chunk_tokens", f"must be a multiple of page_size ({self.page_size})"
            )

    @property
    def pool_tokens(self) -> int:
        """What the pool holds: whole pages."""
        return self.capacity_tokens - self.capacity_tokens % self.page_size

    @property
    def name(self) -> str:
        """The model name that requests may use."""
        return self.served_model_name or str(self.model_path)
