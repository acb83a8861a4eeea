"""The engine's Prometheus figures, by the names and labels of SGLang.

Written out by hand: the engine's own text has no `_created` samples, which the client library only
leaves out for the whole process.

Source: sglang 0.5.23 observability/metrics_collector.py, and the text of a real engine.
"""

from collections import defaultdict
from collections.abc import Mapping

from bench.engine_sim.config import SimulatorConfig
from bench.engine_sim.request import EngineRequest, FinishReason
from bench.engine_sim.scheduler import Scheduler

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class EngineMetrics:
    """What one simulated replica counts. A label that no request named is empty."""

    def __init__(self, config: SimulatorConfig) -> None:
        self._base = {"engine_type": "unified", "model_name": config.name}
        self._custom = config.labels
        self._priority = config.priority_scheduling
        self._counters: defaultdict[str, defaultdict[Labels, float]] = defaultdict(
            lambda: defaultdict(float)
        )

    def finished(
        self, request: EngineRequest, labels: Mapping[str, str], *, streaming: bool
    ) -> None:
        """Count a request that has ended."""
        known = self._base | {name: labels.get(name, "") for name in self._custom}
        if self._priority:
            known["priority"] = "" if request.priority is None else str(request.priority)
        if request.finish is FinishReason.ABORT:
            self._add("num_aborted_requests_total", known, 1)
            return
        stream = known | {"is_streaming": "true" if streaming else "false"}
        self._add("prompt_tokens_total", stream, len(request.prompt))
        self._add("generation_tokens_total", stream, len(request.output))
        self._add("num_requests_total", stream, 1)
        for source, tokens in request.cached.by_source().items():
            if tokens:
                self._add("cached_tokens_total", known | {"cache_source": source}, tokens)

    def render(self, scheduler: Scheduler) -> str:
        """Prometheus text of all counters, with the gauges as they are now."""
        lines: list[str] = []
        for name, samples in self._counters.items():
            lines += _family(name, "counter", samples)
        labels = tuple(sorted(self._base.items()))
        lines += _family(
            "prefill_effective_tokens_total",
            "counter",
            {(*labels, ("mode", mode)): n for mode, n in scheduler.totals.by_mode().items()},
        )
        evicted = {labels: float(scheduler.pool.evicted_tokens)}
        lines += _family("evicted_tokens_total", "counter", evicted)
        for name, value in gauges(scheduler).items():
            lines += _family(name, "gauge", {labels: value})
        return "\n".join(lines) + "\n"

    def _add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self._counters[name][tuple(sorted(labels.items()))] += value


def gauges(scheduler: Scheduler) -> dict[str, float]:
    """The gauges that SGLang sets, by name."""
    pool = scheduler.pool
    return {
        "num_running_reqs": scheduler.num_running,
        "num_queue_reqs": len(scheduler.waiting),
        "num_used_tokens": pool.used_tokens,
        "token_usage": pool.used_tokens / pool.capacity_tokens,
        "max_total_num_tokens": pool.capacity_tokens,
        "kv_available_tokens": pool.free_tokens,
        "kv_evictable_tokens": pool.tree.evictable_tokens,
        "kv_used_tokens": pool.used_tokens,
        "page_size": pool.page_size,
    }


def _family(name: str, kind: str, samples: Mapping[Labels, float]) -> list[str]:
    lines = [f"# TYPE sglang:{name} {kind}"]
    for labels, value in samples.items():
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        lines.append(f"sglang:{name}{{{inner}}} {float(value)}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
