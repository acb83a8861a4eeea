"""What the gateway counts, and the one function that counts a finished request.

Labels are bounded: past so many templates, tenants and replicas a new one is counted as `other`.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from app.agents.counts import AgentCounts
from app.levels import LEVELS, Levels
from app.response_cache.counts import ResponseCacheCounts
from app.series import Buckets, Counts, Distinct, Histogram, page
from app.shadow.counts import ShadowCounts
from cache.rows import LedgerRow, RequestStatus

# Seconds. Fine where answers usually begin, coarse where something is wrong.
_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300)
_SHORT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_GAP_SECONDS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_TOKENS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
_TOKENS_PER_S = (1, 2, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 500)

_MAX_TENANTS = 200
_MAX_TEMPLATES = 100
_MAX_REPLICAS = 256
_MAX_PAIRS = 2_000
_COUNTED_TOGETHER = 64

_BY = ("template", "tenant")
_OTHERS = ("other", "other")
# Template, tenant, replica and status.
_Alike: TypeAlias = tuple[str, str, str | None, RequestStatus]
_NOWHERE = "none"


class Metrics:
    """The gateway's counters; `text` is all of them, and the process's own."""

    def __init__(self) -> None:
        self._process = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._process)
        self._tenants = Distinct(_MAX_TENANTS)
        self._templates = Distinct(_MAX_TEMPLATES)
        self._replicas = Distinct(_MAX_REPLICAS)
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self.in_flight = InFlight()
        # What waits to be counted together.
        self._finished: list[LedgerRow] = []
        self._answered: list[tuple[str, str, str, int, int, float]] = []
        self._queued: list[tuple[str, float]] = []
        self.families: list[Counts | Histogram] = []
        self._of_requests()
        self._of_http()
        self._of_faults()
        self.shadow = ShadowCounts(self._counts)
        self.response_cache = ResponseCacheCounts(self._counts)
        self.agents = AgentCounts(self._counts, self._histogram)

    def gaps(self, replica: str) -> Buckets:
        """Where the seconds between the pieces of content of a replica's streams are counted."""
        return self._gaps.of((self._replicas.label(replica),))

    def finished(self, row: LedgerRow) -> None:
        """One request has finished; it is counted together with others, or for `catch_up`."""
        self._finished.append(row)
        if len(self._finished) >= _COUNTED_TOGETHER:
            self.catch_up()

    def refused(self, code: str) -> None:
        """A model request was refused before there was anything to be written down of it."""
        self._errors.values[code,] += 1

    def answered(
        self, route: str, method: str, status: str, *, received: int, sent: int, seconds: float
    ) -> None:
        """One HTTP request of whatever kind was answered; `received` and `sent` are bytes of
        bodies. It is counted together with others, as `finished` ones are."""
        self._answered.append((route, method, status, received, sent, seconds))
        if len(self._answered) >= _COUNTED_TOGETHER:
            self._count_answered()

    def queued(self, priority: str, seconds: float) -> None:
        """A request was let in after so long in the queue; counted when `answered` ones are."""
        self._queued.append((priority, seconds))
        if len(self._queued) >= _COUNTED_TOGETHER:
            self._count_queued()

    def catch_up(self) -> None:
        """Count all that has finished: to be called by the event loop before `text`."""
        # Singly, between requests, each would take several times as long.
        alike: dict[_Alike, list[LedgerRow]] = {}
        for row in self._finished:
            key = (row.template, row.tenant, row.replica, row.status)
            rows = alike.get(key)
            if rows is None:
                alike[key] = [row]
            else:
                rows.append(row)
        self._finished.clear()
        for (template, tenant, replica, status), rows in alike.items():
            pair = self._pair(template, tenant)
            self._requests.values[*pair, status.value] += len(rows)
            self._count_tokens(rows, pair)
            self._count_times(rows, pair[0], replica, status.value)
        self._count_answered()
        self._count_queued()

    def _count_answered(self) -> None:
        times: dict[str, list[float]] = {}
        for route, method, status, received, sent, seconds in self._answered:
            self._http.values[route, method, status] += 1
            self._http_received.values[route,] += received
            self._http_sent.values[route,] += sent
            times.setdefault(route, []).append(seconds)
        self._answered.clear()
        for route, of_route in times.items():
            self._http_s.of((route,)).observe_all(of_route)

    def _count_queued(self) -> None:
        seconds: dict[str, list[float]] = {}
        for priority, waited in self._queued:
            seconds.setdefault(priority, []).append(waited)
        self._queued.clear()
        for priority, waits in seconds.items():
            self._queue_s.of((priority,)).observe_all(waits)

    def limited(self, limit: str) -> None:
        """A limit (a fixed name, such as `tokens_per_minute`) turned a request away."""
        self._limited.values[limit,] += 1

    def failed_over(self, replica: str) -> None:
        """A request that this replica didn't take was sent to another."""
        self._failovers.values[self._replicas.label(replica),] += 1

    def text(self, levels: Levels) -> bytes:
        """All that was counted, in Prometheus's text format; any thread may ask.

        Args:
            levels: what others count or know.
        """
        return page(self._lines(levels)) + generate_latest(self._process)

    def _lines(self, levels: Levels) -> Iterator[str]:
        for family in self.families:
            yield from family.lines()
        for gauge in LEVELS:
            values = levels.get(gauge.name)
            if values is not None:
                yield from gauge.lines(values)
        yield from self.in_flight.lines()

    def _count_tokens(self, rows: Sequence[LedgerRow], pair: tuple[str, str]) -> None:
        template = (pair[0],)
        prompts = [row.prompt_tokens for row in rows if row.prompt_tokens is not None]
        if prompts:
            self._prompt.values[pair] += sum(prompts)
            self._prompt_sizes.of(template).observe_all(prompts)
        outputs = [row.completion_tokens for row in rows if row.completion_tokens is not None]
        if outputs:
            self._output.values[pair] += sum(outputs)
            self._output_sizes.of(template).observe_all(outputs)
        ideal = [row.ideal_tokens for row in rows if row.ideal_tokens is not None]
        if ideal:
            self._ideal.values[pair] += sum(ideal)
        for row in rows:
            if row.lost:
                for verdict, lost in row.lost.items():
                    self._lost.values[*pair, verdict] += lost
            if row.cached_tokens is None:
                self._unknown.values[pair] += 1
            elif row.cached_tokens and row.cached_gpu and row.cached_storage == 0:
                self._cached.values[*pair, "gpu"] += row.cached_gpu
            elif row.cached_tokens:
                for tier, tokens in _tiers(row):
                    if tokens:
                        self._cached.values[*pair, tier] += tokens
            if row.mode is not None:
                self._decisions.values[row.mode,] += 1
            if row.error_code is not None:
                self._errors.values[row.error_code,] += 1

    def _count_times(
        self, rows: Sequence[LedgerRow], template: str, name: str | None, status: str
    ) -> None:
        replica = _NOWHERE if name is None else self._replicas.label(name)
        if name is not None:
            self._routed.values[replica, status] += len(rows)
        firsts = [row.ttft_s for row in rows if row.ttft_s is not None]
        if firsts:
            self._ttft.of((template, replica)).observe_all(firsts)
            speeds = [speed for row in rows if (speed := _tokens_per_s(row)) is not None]
            if speeds:
                self._speeds.of((replica,)).observe_all(speeds)
        lasts = [row.e2e_s for row in rows if row.e2e_s is not None]
        if lasts:
            self._e2e.of((template, replica)).observe_all(lasts)

    def _pair(self, template: str, tenant: str) -> tuple[str, str]:
        """Both as labels."""
        pair = self._pairs.get((template, tenant))
        if pair is None:
            if len(self._pairs) >= _MAX_PAIRS:
                return _OTHERS
            pair = (self._templates.label(template), self._tenants.label(tenant))
            if pair[1] == tenant:  # what became `other` takes no place in memory either
                self._pairs[template, tenant] = pair
        return pair

    def _of_requests(self) -> None:
        self._requests = self._counts("requests", "Model requests by outcome", (*_BY, "status"))
        self._prompt = self._counts("prompt_tokens", "Prompt tokens of finished requests", _BY)
        self._output = self._counts("output_tokens", "Tokens that models answered", _BY)
        self._cached = self._counts(
            "cached_tokens", "Prompt tokens re-used, by the tier they came from", (*_BY, "tier")
        )
        self._ideal = self._counts("ideal_tokens", "Prompt tokens that could be re-used", _BY)
        self._lost = self._counts(
            "lost_tokens", "Prompt tokens computed again, by the reason", (*_BY, "verdict")
        )
        self._unknown = self._counts(
            "unknown_cached_requests", "Requests whose re-use the engine didn't report", _BY
        )
        self._decisions = self._counts("decisions", "Requests by mode", ("mode",))
        self._routed = self._counts("routed", "Requests by replica", ("replica", "status"))
        where = ("template", "replica")
        self._ttft = self._histogram("ttft_seconds", "Arrival to first content", where)
        self._e2e = self._histogram("e2e_seconds", "Arrival to last byte", where)
        self._gaps = self._histogram(
            "itl_seconds", "Between pieces of streamed content", ("replica",), _GAP_SECONDS
        )
        self._speeds = self._histogram(
            "output_tokens_per_second",
            "A request's tokens a second after its first",
            ("replica",),
            _TOKENS_PER_S,
        )
        self._prompt_sizes = self._histogram(
            "request_prompt_tokens", "Tokens of a request's prompt", ("template",), _TOKENS
        )
        self._output_sizes = self._histogram(
            "request_output_tokens", "Tokens of a request's answer", ("template",), _TOKENS
        )

    def _of_http(self) -> None:
        self._http = self._counts(
            "http_requests", "HTTP requests; code 499: the client left", ("route", "method", "code")
        )
        self._http_received = self._counts(
            "http_request_bytes", "Bytes of request bodies", ("route",)
        )
        self._http_sent = self._counts("http_response_bytes", "Bytes of answers", ("route",))
        self._http_s = self._histogram(
            "http_seconds", "Whole HTTP requests", ("route",), _SHORT_SECONDS
        )

    def _of_faults(self) -> None:
        self._errors = self._counts("request_errors", "Failed model requests by code", ("code",))
        self._limited = self._counts("limited", "Requests turned away by a limit", ("limit",))
        self._failovers = self._counts(
            "failovers", "Requests sent elsewhere, by the replica that failed", ("replica",)
        )
        self._queue_s = self._histogram(
            "queue_seconds", "Wait for admission", ("priority",), _SHORT_SECONDS
        )

    def _counts(self, name: str, about: str, labels: tuple[str, ...]) -> Counts:
        made = Counts(f"foreword_{name}_total", about, labels)
        self.families.append(made)
        return made

    def _histogram(
        self,
        name: str,
        about: str,
        labels: tuple[str, ...],
        bounds: tuple[float, ...] = _SECONDS,
    ) -> Histogram:
        made = Histogram(f"foreword_{name}", about, labels, bounds=bounds)
        self.families.append(made)
        return made


class InFlight:
    """How many model requests are being answered now."""

    def __init__(self) -> None:
        self.now = 0

    def inc(self) -> None:
        """One more."""
        self.now += 1

    def dec(self) -> None:
        """One less."""
        self.now -= 1

    def lines(self) -> Iterator[str]:
        """In text format."""
        name = "foreword_in_flight_requests"
        yield f"# HELP {name} Model requests being answered"
        yield f"# TYPE {name} gauge"
        yield f"{name} {float(self.now)}"


def _tokens_per_s(row: LedgerRow) -> float | None:
    """Decoding speed as the client saw it; None for answers too short to tell."""
    if row.completion_tokens is None or row.ttft_s is None or row.e2e_s is None:
        return None
    seconds, tokens = row.e2e_s - row.ttft_s, row.completion_tokens - 1
    return tokens / seconds if tokens > 0 and seconds > 0 else None


def _tiers(row: LedgerRow) -> tuple[tuple[str, int | None], ...]:
    """By tier; `storage` and `unknown` are what can't be told apart, so that the sum is right."""
    if row.cached_gpu is None or row.cached_storage is None:
        return (("unknown", row.cached_tokens),)
    gpu, below = ("gpu", row.cached_gpu), row.cached_storage
    if not below:
        return (gpu,)
    split = (("ram", row.cached_ram), ("ssd", row.cached_ssd), ("redis", row.cached_redis))
    if None in (row.cached_ram, row.cached_ssd, row.cached_redis):
        return (gpu, ("storage", below))
    return (gpu, *split)
