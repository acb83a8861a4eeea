"""What the dashboards show: panels by question, as data. make.py turns it into Grafana's JSON."""

from dataclasses import dataclass

_RATE = "[$__rate_interval]"
_PAIR = '{template=~"$template", tenant=~"$tenant"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture.

    Attributes:
        queries: PromQL and the legend of what it gives.
        unit: Grafana's name of it.
        bad_above: from this value on it is red.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    about: str = ""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    bad_above: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A heading."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard; `filters` are labels that can be chosen at its top."""

    name: str
    title: str
    about: str
    items: tuple[Row | Panel, ...]
    filters: tuple[str, ...] = ()


def _sum(metric: str, by: str = "", labels: str = "") -> str:
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{labels}{_RATE}))"


def _share(part: str, whole: str, by: str = "", labels: str = "") -> str:
    return f"{_sum(part, by, labels)} / {_sum(whole, by, labels)}"


def _quantiles(metric: str, labels: str = "") -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"histogram_quantile({q}, {_sum(f'{metric}_bucket', 'le', labels)})", f"p{name}")
        for q, name in ((0.5, "50"), (0.9, "90"), (0.99, "99"))
    )


def _quantile_by(metric: str, label: str, labels: str = "", q: float = 0.95) -> str:
    return f"histogram_quantile({q}, {_sum(f'{metric}_bucket', f'{label}, le', labels)})"


def _stat(title: str, query: str, *, bad_above: float | None = None, unit: str = "short") -> Panel:
    queries = ((query, ""),)
    return Panel(title=title, queries=queries, kind="stat", width=4, bad_above=bad_above, unit=unit)


_CACHED, _IDEAL, _PROMPT, _LOST = (
    f"foreword_{name}_tokens_total" for name in ("cached", "ideal", "prompt", "lost")
)
_UNKNOWN = "foreword_unknown_cached_requests_total"


def _hit_rate(by: str = "", labels: str = "") -> str:
    """0 where nothing was re-used yet, but nothing where re-use is not reported."""
    cached, prompt, unknown = (_sum(name, by, labels) for name in (_CACHED, _PROMPT, _UNKNOWN))
    return f"({cached} or (0 * {prompt} unless {unknown} > 0)) / {prompt}"


OVERVIEW = Board(
    name="overview",
    title="overview",
    about="Is it well, how much is asked of it, how fast does it answer, what does re-use save?",
    items=(
        _stat("Gateways that are ready", "sum(foreword_ready)"),
        _stat("Reasons for being degraded", "max(foreword_degraded_reasons)", bad_above=1),
        _stat("Requests under way", "sum(foreword_in_flight_requests)"),
        _stat("Requests that wait", "sum(foreword_queue_depth)", bad_above=100),
        _stat("Hit rate", _hit_rate(), unit="percentunit"),
        _stat("Best possible", _share(_IDEAL, _PROMPT), unit="percentunit"),
        Row("How much is asked"),
        Panel(
            title="Model requests by outcome",
            queries=((_sum("foreword_requests_total", "status"), "{{status}}"),),
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="HTTP requests by code",
            about="Probes and scrapes left out; 499: the client left before an answer began.",
            queries=(
                (
                    _sum(
                        "foreword_http_requests_total",
                        "code",
                        '{route!~"/livez|/readyz|/metrics"}',
                    ),
                    "{{code}}",
                ),
            ),
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Failed, turned away, sent elsewhere",
            queries=(
                (_sum("foreword_request_errors_total", "code"), "failed: {{code}}"),
                (_sum("foreword_limited_total", "limit"), "turned away: {{limit}}"),
                (_sum("foreword_failovers_total"), "sent to another replica"),
                (f"sum by (code) (delta(foreword_wire_refused{_RATE}))", "refused: {{code}}"),
            ),
            unit="reqps",
        ),
        Panel(
            title="Tokens in and out",
            queries=((_sum(_PROMPT), "in"), (_sum("foreword_output_tokens_total"), "out")),
            unit="short",
        ),
        Panel(
            title="Input size (tokens)",
            queries=_quantiles("foreword_request_prompt_tokens"),
        ),
        Panel(
            title="Output size (tokens)",
            queries=_quantiles("foreword_request_output_tokens"),
        ),
        Row("How fast it answers"),
        Panel(
            title="Time to the first token",
            about="Streams: arrival to first content.",
            queries=_quantiles("foreword_ttft_seconds"),
            unit="s",
        ),
        Panel(
            title="Tokens a second of a stream, after the first",
            about="The slow end is the low one: p50 of requests are slower than the line p50.",
            queries=_quantiles("foreword_output_tokens_per_second"),
        ),
        Panel(
            title="End to end",
            queries=_quantiles("foreword_e2e_seconds"),
            unit="s",
        ),
        Panel(
            title="Between two pieces of a stream",
            queries=_quantiles("foreword_itl_seconds"),
            unit="s",
        ),
        Panel(
            title="Wait for admission (p95)",
            queries=((_quantile_by("foreword_queue_seconds", "priority"), "{{priority}}"),),
            unit="s",
        ),
        Panel(
            title="HTTP requests as a whole (p95)",
            queries=((_quantile_by("foreword_http_seconds", "route"), "{{route}}"),),
            unit="s",
        ),
        Row("What re-use saves"),
        Panel(
            title="Hit rate beside the best possible",
            about="By tokens. What lies between the lines was computed again.",
            queries=(
                (_hit_rate(), "re-used"),
                (_share(_IDEAL, _PROMPT), "best possible"),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Tokens computed again, by verdict",
            queries=((_sum(_LOST, "verdict"), "{{verdict}}"),),
            stacked=True,
        ),
        Panel(
            title="Answers by mode",
            queries=((_sum("foreword_decisions_total", "mode"), "{{mode}}"),),
            unit="reqps",
            stacked=True,
        ),
        Row("How busy the gateways are"),
        Panel(
            title="Queue and admission",
            queries=(
                ("sum(foreword_queue_depth)", "wait"),
                ("sum(foreword_admitted_requests)", "let in"),
                ("sum(foreword_admission_capacity)", "may be let in"),
            ),
        ),
        Panel(
            title="CPU and event loop",
            queries=(
                (f'rate(process_cpu_seconds_total{{job="gateway"}}{_RATE})', "{{instance}}: CPU"),
                ("foreword_event_loop_lag_seconds", "{{instance}}: loop held up"),
            ),
            unit="s",
        ),
        Panel(
            title="Memory",
            queries=(
                ('process_resident_memory_bytes{job="gateway"}', "{{instance}}"),
                ("sum(foreword_prompt_opening_bytes)", "beginnings of prompts"),
                ("sum(foreword_conversation_bytes)", "conversations"),
            ),
            unit="bytes",
        ),
        Panel(
            title="Bytes in and out",
            queries=(
                (_sum("foreword_http_request_bytes_total"), "in"),
                (_sum("foreword_http_response_bytes_total"), "out"),
            ),
            unit="Bps",
        ),
        Panel(
            title="Ledger and deletions",
            about="All of them belong at 0.",
            queries=(
                ("sum(foreword_ledger_dropped_rows)", "ledger rows lost"),
                ("sum(foreword_accounting_errors)", "faults of accounting"),
                ("sum(foreword_kv_deletions_pending)", "deletions not done"),
            ),
        ),
        Panel(
            title="Several gateways",
            queries=(
                ("max(foreword_gateways)", "heard"),
                ("min(foreword_redis_up)", "Redis reached"),
                ("min(foreword_shared_views_up)", "hear each other"),
            ),
        ),
    ),
)

TEMPLATES = Board(
    name="templates",
    title="templates",
    about="Which templates are re-used as far as they could be, and why not.",
    filters=("template", "tenant"),
    items=(
        Panel(
            title="Templates",
            about="Over the last hour.",
            kind="table",
            width=24,
            queries=tuple(
                (query.replace("$__rate_interval", "1h"), legend)
                for query, legend in (
                    (_sum("foreword_requests_total", "template", _PAIR), "requests a second"),
                    (_sum(_PROMPT, "template", _PAIR), "prompt tokens a second"),
                    (_hit_rate("template", _PAIR), "hit rate"),
                    (_share(_IDEAL, _PROMPT, "template", _PAIR), "best possible"),
                )
            ),
        ),
        Panel(
            title="Hit rate",
            queries=((_hit_rate("template", _PAIR), "{{template}}"),),
            unit="percentunit",
            width=12,
        ),
        Panel(
            title="Best possible hit rate",
            about="What an unbounded cache without any loss would have re-used.",
            queries=((_share(_IDEAL, _PROMPT, "template", _PAIR), "{{template}}"),),
            unit="percentunit",
            width=12,
        ),
        Panel(
            title="Computed again, by template and verdict",
            about="docs/verdicts.md says what each verdict means and what helps.",
            queries=(
                (
                    f"topk(10, {_sum(_LOST, 'template, verdict', _PAIR)})",
                    "{{template}}: {{verdict}}",
                ),
            ),
            stacked=True,
            width=12,
        ),
        Panel(
            title="Re-use that the engine didn't report",
            about="In no hit rate: does the engine run with --enable-cache-report?",
            queries=(
                (
                    _sum(_UNKNOWN, "template", _PAIR),
                    "{{template}}",
                ),
            ),
            unit="reqps",
            width=12,
        ),
        Panel(
            title="Requests",
            queries=((_sum("foreword_requests_total", "template", _PAIR), "{{template}}"),),
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Time to the first token (p95)",
            queries=(
                (
                    _quantile_by("foreword_ttft_seconds", "template", '{template=~"$template"}'),
                    "{{template}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Prompt size (p95, tokens)",
            queries=(
                (
                    _quantile_by(
                        "foreword_request_prompt_tokens", "template", '{template=~"$template"}'
                    ),
                    "{{template}}",
                ),
            ),
        ),
    ),
)

TIERS = Board(
    name="tiers",
    title="KV tiers",
    about="Where re-used tokens come from, how full the tiers are, and whether they are well.",
    items=(
        _stat("Tier servers that answer", 'sum(up{job="tier"})'),
        _stat("Replicas that skip the tiers", "sum(foreword_replica_tier_open)", bad_above=1),
        _stat("RAM tier in use", "max(lmcache_mp_l1_usage_ratio)", unit="percentunit"),
        _stat("RAM tier", "sum(lmcache_mp_l1_memory_usage_bytes)", unit="bytes"),
        _stat("SSD and Redis", "sum(lmcache_mp_l2_usage_bytes)", unit="bytes"),
        _stat("Late loads held back", "sum(foreword_tier_held_loads)", bad_above=1),
        Panel(
            title="Re-used tokens by tier",
            queries=((_sum(_CACHED, "tier"), "{{tier}}"),),
            stacked=True,
            width=12,
        ),
        Panel(
            title="The same, as the engines count",
            about="device: GPU; storage: everything below. Should agree with the gateway's sum.",
            queries=((_sum("sglang:cached_tokens_total", "cache_source"), "{{cache_source}}"),),
            stacked=True,
            width=12,
        ),
        Panel(
            title="Look-ups in the tiers (tokens)",
            queries=(
                (_sum("lmcache_mp_lookup_requested_tokens_total"), "asked for"),
                (_sum("lmcache_mp_lookup_hit_l1_tokens_total"), "found in RAM"),
                (_sum("lmcache_mp_lookup_hit_l2_tokens_total"), "found on SSD or in Redis"),
            ),
        ),
        Panel(
            title="Stores below RAM (chunks)",
            queries=(
                (_sum("lmcache_mp_l2_store_submitted_objects_chunks_total"), "begun"),
                (_sum("lmcache_mp_l2_store_completed_objects_chunks_total"), "done"),
            ),
        ),
        Panel(
            title="Speed of stores (GB/s, p50)",
            queries=(
                (
                    _quantile_by("lmcache_mp_l2_store_throughput_GB_per_second", "l2_name", q=0.5),
                    "{{l2_name}}",
                ),
            ),
        ),
        Panel(
            title="Use of the tiers",
            queries=(
                ("lmcache_mp_l1_memory_usage_bytes", "RAM ({{backend}})"),
                ("sum by (l2_name) (lmcache_mp_l2_usage_bytes)", "{{l2_name}}"),
            ),
            unit="bytes",
        ),
        Panel(
            title="The guard in the engines",
            about="Calls that failed or were late, and times an engine registered anew.",
            queries=(
                (
                    f"sum by (instance) (rate(foreword_tier_failures_total{_RATE}))",
                    "{{instance}}: failed or late",
                ),
                (
                    f"sum by (instance) (rate(foreword_tier_registrations_total{_RATE}))",
                    "{{instance}}: registered anew",
                ),
            ),
        ),
        Panel(
            title="Lost for the tiers' sake",
            queries=((_sum(_LOST, "verdict"), "{{verdict}}"),),
            stacked=True,
        ),
        Row("Whole collections in the cache"),
        Panel(
            title="Corpora",
            queries=(
                ("sum(foreword_corpora)", "in use"),
                ("sum(foreword_corpora_resident)", "resident"),
            ),
        ),
        Panel(
            title="Their tokens",
            queries=(
                ("sum(foreword_corpus_tokens)", "in use"),
                ("sum(foreword_corpus_resident_tokens)", "resident"),
            ),
        ),
        Panel(
            title="Warmings",
            queries=(
                (f"sum(delta(foreword_corpus_warmings{_RATE}))", "done"),
                (f"sum(delta(foreword_corpus_warmings_failed{_RATE}))", "failed"),
            ),
        ),
    ),
)

_REPLICA = '{replica=~"$replica"}'


def _by_replica(metric: str) -> tuple[tuple[str, str], ...]:
    return ((f"max by (replica) ({metric}{_REPLICA})", "{{replica}}"),)


REPLICAS = Board(
    name="replicas",
    title="replicas",
    about="State, boot, load and speed of each engine, and where requests went.",
    filters=("replica",),
    items=(
        Panel(
            title="State",
            kind="state-timeline",
            width=12,
            about="One row for each state that a replica was in.",
            queries=(
                (
                    f"max by (replica, state) (foreword_replica_state{_REPLICA}) == 1",
                    "{{replica}}: {{state}}",
                ),
            ),
        ),
        Panel(
            title="How long the last start took, by phase",
            kind="bargauge",
            width=12,
            unit="s",
            queries=(("max by (phase) (sglang:startup_time_seconds)", "{{phase}}"),),
        ),
        Panel(title="KV pool in use", queries=_by_replica("foreword_replica_pool_used_ratio"),
              unit="percentunit"),
        Panel(title="Requests in the batch",
              queries=_by_replica("foreword_replica_running_requests")),
        Panel(title="Requests in the engine's queue",
              queries=_by_replica("foreword_replica_waiting_requests")),
        Panel(title="Tokens still to compute",
              about="The sum is what docs/kubernetes.md scales by.",
              queries=_by_replica("foreword_replica_waiting_tokens")),
        Panel(title="Speed of prefill (tokens/s)",
              queries=_by_replica("foreword_replica_prefill_tokens_per_second")),
        Panel(title="Requests of the gateways",
              queries=((f"sum by (replica) (foreword_replica_in_flight{_REPLICA})",
                        "{{replica}}"),)),
        Panel(title="Time to the first token (p95)", unit="s",
              queries=((_quantile_by("foreword_ttft_seconds", "replica", _REPLICA),
                        "{{replica}}"),)),
        Panel(title="End to end (p95)", unit="s",
              queries=((_quantile_by("foreword_e2e_seconds", "replica", _REPLICA),
                        "{{replica}}"),)),
        Panel(title="Tokens a second of a stream (p50)",
              queries=((_quantile_by("foreword_output_tokens_per_second", "replica", _REPLICA, 0.5),
                        "{{replica}}"),)),
        Panel(title="Where requests went", unit="reqps", stacked=True,
              queries=((_sum("foreword_routed_total", "replica", _REPLICA), "{{replica}}"),)),
        Panel(title="Failed over, and open breakers",
              queries=((_sum("foreword_failovers_total", "replica", _REPLICA),
                        "{{replica}}: sent elsewhere"),
                       (f"max by (replica) (foreword_replica_breaker_open{_REPLICA})",
                        "{{replica}}: breaker open"))),
        Panel(title="What the engines evict (tokens/s)",
              queries=((_sum("sglang:evicted_tokens_total", "instance"), "{{instance}}"),)),
        Panel(title="KV events",
              queries=((f"sum by (instance) (delta(foreword_kv_event_batches{_RATE}))",
                        "{{instance}}: batches"),
                       (f"sum by (instance) (delta(foreword_kv_event_gaps{_RATE}))",
                        "{{instance}}: lost"))),
        Panel(title="Pages in the prefix index",
              queries=(("foreword_index_pages", "{{instance}}"),)),
        Panel(title="Pool, as the engines say",
              queries=(("sglang:token_usage", "{{instance}}"),), unit="percentunit"),
    ),
)  # fmt: skip

_TENANT = '{tenant=~"$tenant"}'
_FAILED = '{tenant=~"$tenant", status!="ok"}'


def _top(query: str) -> tuple[tuple[str, str], ...]:
    return ((f"topk(20, {query})", "{{tenant}}"),)


TENANTS = Board(
    name="tenants",
    title="tenants",
    about="Who asks how much, what re-use does for each, and whom limits hold back.",
    filters=("tenant",),
    items=(
        Panel(title="Requests", unit="reqps", stacked=True,
              queries=_top(_sum("foreword_requests_total", "tenant", _TENANT))),
        Panel(title="Prompt tokens a second", stacked=True,
              queries=_top(_sum(_PROMPT, "tenant", _TENANT))),
        Panel(title="Output tokens a second", stacked=True,
              queries=_top(_sum("foreword_output_tokens_total", "tenant", _TENANT))),
        Panel(title="Hit rate", unit="percentunit", width=12,
              queries=_top(_hit_rate("tenant", _TENANT))),
        Panel(title="Best possible hit rate", unit="percentunit", width=12,
              queries=_top(_share(_IDEAL, _PROMPT, "tenant", _TENANT))),
        Panel(title="Prompt tokens that had to be computed", stacked=True, width=12,
              queries=_top(f"{_sum(_PROMPT, 'tenant', _TENANT)}"
                           f" - {_sum(_CACHED, 'tenant', _TENANT)}")),
        Panel(title="Computed again, by verdict", stacked=True, width=12,
              queries=((f"topk(20, {_sum(_LOST, 'tenant, verdict', _TENANT)})",
                        "{{tenant}}: {{verdict}}"),)),
        Panel(title="Requests that failed", unit="reqps", width=12,
              queries=((f"topk(20, {_sum('foreword_requests_total', 'tenant, status', _FAILED)})",
                        "{{tenant}}: {{status}}"),)),
        Panel(title="Turned away, all tenants together", unit="reqps", width=12,
              about="By limit; whom it met is in the log and in `foreword report`.",
              queries=((_sum("foreword_limited_total", "limit"), "{{limit}}"),)),
    ),
)  # fmt: skip

BOARDS = (OVERVIEW, TEMPLATES, TIERS, REPLICAS, TENANTS)
