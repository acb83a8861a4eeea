"""The scheduler: which requests compute next, and how long that takes. Pure.

As SGLang's default: first come, first served; waiting prompts go before decoding; a prompt longer
than the chunk is computed in several batches. With priority scheduling, higher numbers wait less.
A request whose prefix the tier is still loading is passed over.
"""

from collections import deque
from dataclasses import dataclass, field

from bench.engine_sim.clock import prefill_s, tier_load_s
from bench.engine_sim.config import SimulatorConfig
from bench.engine_sim.pool import KvPool
from bench.engine_sim.request import EngineRequest, FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn of the engine: how long it takes, and what it computes.

    Attributes:
        prefills: requests with the number of their prompt tokens that are computed.
        decodes: requests that get one more token.
    """

    duration_s: float
    prefills: tuple[tuple[EngineRequest, int], ...] = ()
    decodes: tuple[EngineRequest, ...] = ()


@dataclass(slots=True)
class Totals:
    """Counted since the start."""

    prefill_tokens: int = 0
    prefill_s: float = 0.0
    device_tokens: int = 0
    storage_tokens: int = 0

    def by_mode(self) -> dict[str, int]:
        """Prompt tokens by where their KV came from, in SGLang's words."""
        return {
            "input": self.prefill_tokens,
            "device_hit": self.device_tokens,
            "host_hit": 0,
            "storage_hit": self.storage_tokens,
        }


@dataclass(slots=True)
class Scheduler:
    """Queue and batch of one replica."""

    config: SimulatorConfig
    pool: KvPool
    now_s: float = 0.0
    tier_delay_s: float = 0.0
    waiting: deque[EngineRequest] = field(default_factory=deque)
    running: list[EngineRequest] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    _prefilling: list[EngineRequest] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running or self._prefilling)

    def waiting_uncached_tokens(self) -> int:
        """Prompt tokens in the queue that nothing has cached by now."""
        tree = self.pool.tree
        return sum(len(r.prompt) - tree.peek(r.namespace, r.prompt) for r in self.waiting)

    @property
    def num_running(self) -> int:
        return len(self.running) + len(self._prefilling)

    def add(self, request: EngineRequest) -> None:
        """Queue a request; the tier begins to load what it has."""
        loaded = self.pool.look_up(request)
        if loaded is not None:
            load_s = tier_load_s(self.config.clock, loaded) + self.tier_delay_s
            request.ready_at_s = self.now_s + load_s
        self.waiting.append(request)
        if self.config.priority_scheduling:
            self.waiting = deque(sorted(self.waiting, key=lambda r: -(r.priority or 0)))

    def abort(self, request: EngineRequest) -> None:
        """Stop a request wherever it is; a finished one is left alone."""
        if request.finish is not None:
            return
        request.finish = FinishReason.ABORT
        for place in (self.waiting, self._prefilling, self.running):
            if request in place:
                place.remove(request)
        self.pool.release(request)

    def begin(self) -> Step:
        """The next batch, with what it will take. Must be `busy`."""
        self._admit()
        if self._prefilling:
            return self._prefill()
        if self.running:
            return Step(duration_s=self.config.clock.decode_step_s, decodes=tuple(self.running))
        # Every waiting request waits for the tier.
        return Step(duration_s=min(r.ready_at_s for r in self.waiting) - self.now_s)

    def complete(self, step: Step) -> list[EngineRequest]:
        """Let the batch's time pass; returns the requests that have a new token or have ended.

        Requests aborted meanwhile are left out.
        """
        self.now_s += step.duration_s
        spoke: list[EngineRequest] = []
        for request, computed in step.prefills:
            if request.finish is None and self._computed(request, computed):
                spoke.append(request)
        spoke += [request for request in step.decodes if request.finish is None]
        for request in spoke:
            request.say()
            if request.finish is not None:
                self.running.remove(request)
                self.pool.release(request)
        return spoke

    def _admit(self) -> None:
        """Take requests from the queue while the batch and the memory have room."""
        budget = self.config.chunked_prefill_tokens
        budget -= sum(request.uncached_left for request in self._prefilling)
        for request in list(self.waiting):
            if budget <= 0 or self.num_running >= self.config.max_running_requests:
                return
            if request.ready_at_s > self.now_s:
                continue
            if not self.pool.admit(request):
                return
            self.waiting.remove(request)
            self._prefilling.append(request)
            self.totals.device_tokens += request.cached.device
            self.totals.storage_tokens += request.cached.storage or 0
            budget -= request.uncached_left

    def _prefill(self) -> Step:
        budget = self.config.chunked_prefill_tokens
        parts: list[tuple[EngineRequest, int]] = []
        for request in self._prefilling:
            part = min(budget, request.uncached_left)
            budget -= part
            if part == request.uncached_left or part > 0:
                parts.append((request, part))
        computed = self.config.chunked_prefill_tokens - budget
        duration_s = prefill_s(self.config.clock, computed)
        self.totals.prefill_tokens += computed
        self.totals.prefill_s += duration_s
        return Step(duration_s=duration_s, prefills=tuple(parts))

    def _computed(self, request: EngineRequest, tokens: int) -> bool:
        """Note that prompt tokens were computed; True when that was the last of them."""
        request.uncached_left -= tokens
        if request.uncached_left > 0:
            return False
        self._prefilling.remove(request)
        self.running.append(request)
        self.pool.remember(request)
        return True
