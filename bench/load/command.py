"""`foreword bench run`: a workload to an endpoint, its table on stdout, its folder on disk."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import orjson
from rich.console import Console

from bench.errors import BenchError
from bench.load.run import Plan, run_plan
from bench.load.validity import Bounds
from bench.metrics import Reuse, Summary, Targets, reuse_bounds, summarise_phases
from bench.metrics.table import heading, summary_lines, times_table
from bench.run_folder import Load, RunFacts
from bench.workloads.file import Workload, read_workload
from bench.workloads.vocabulary import vocabulary_of

_WIDTH = 120
# Beyond, counting would take longer than minutes, and more memory than the run.
_MOST_BYTES = 100_000_000
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_POSITIVE = click.FloatRange(0, min_open=True)


@click.command(context_settings={"show_default": True})
@click.argument("workload", type=_FILE)
@click.option("--url", default="http://127.0.0.1:8400",
              help="base URL: Foreword, SGLang, vLLM, any OpenAI-compatible service")  # fmt: skip
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False),
              required=True, help="the run's folder")  # fmt: skip
@click.option("--model", help="[default: the first that the target names]")
@click.option("--api-key-env", metavar="NAME", help="environment variable that holds the key")
@click.option("--concurrency", type=click.IntRange(1),
              help="closed loop: so many requests at any time")  # fmt: skip
@click.option("--rate", type=_POSITIVE, help="requests per second; sessions count once")
@click.option("--arrivals", type=click.Choice(["poisson", "constant", "gamma"]),
              default="poisson", help="with --rate")  # fmt: skip
@click.option("--burstiness", type=_POSITIVE, default=1.0,
              help="gamma's shape: below 1 in bursts, above 1 more evenly")  # fmt: skip
@click.option("--trace-times", is_flag=True, help="at the workload's own times")
@click.option("--speedup", type=_POSITIVE, default=1.0, help="with --trace-times")
@click.option("--max-concurrency", type=click.IntRange(1),
              help="with --rate or --trace-times: later ones wait, and that is told")  # fmt: skip
@click.option("--warmup", type=click.IntRange(0), default=0,
              help="short requests of no workload beforehand")  # fmt: skip
@click.option(
    "--flush", is_flag=True, help="empty the engines' own caches first; tiers keep theirs"
)
@click.option("--passes", type=click.IntRange(1), default=1,
              help="how often the list is sent: first cold, then warm")  # fmt: skip
@click.option("--engine-url", "engine_urls", multiple=True,
              help="an engine behind the target  [default: as the target tells]")  # fmt: skip
@click.option("--ignore-eos/--no-ignore-eos", default=None,
              help="answers as long as asked for  [default: where the target can]")  # fmt: skip
@click.option("--limit-field", type=click.Choice(["max_tokens", "max_completion_tokens"]),
              default="max_tokens", help="as the target calls it")  # fmt: skip
@click.option("--extra-body", default="{}", metavar="JSON", help="fields for each request")
@click.option("--timeout-s", type=_POSITIVE, default=600.0, help="for one request")
@click.option("--real-time/--no-real-time", default=True,
              help="send before all others on this machine, where that is permitted")  # fmt: skip
@click.option("--max-lag-ms", type=_POSITIVE, default=10.0,
              help="p99 of the generator's lag, beyond which the run doesn't count")  # fmt: skip
@click.option("--max-errors", type=click.FloatRange(0, 1), default=0.01,
              help="share of failed requests, beyond which it doesn't")  # fmt: skip
@click.option("--ttft-ms", type=_POSITIVE, help="target for goodput")
@click.option("--tpot-ms", type=_POSITIVE, help="target for goodput")
@click.option("--e2e-ms", type=_POSITIVE, help="target for goodput")
@click.option("--tokenizer", type=click.Path(path_type=Path, exists=True),
              help="counts what the workload could re-use in tokens, not words")  # fmt: skip
@click.option("--page-size", type=click.IntRange(1), default=16, help="for that count")
@click.option("--pool-tokens", type=click.IntRange(1),
              help="for pooled LRU  [default: as the engine tells]")  # fmt: skip
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="kept with the run")
@click.option("--seed", type=int, default=0, help="of the times, and of the intervals")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def run(workload: Path, folder: Path, form: str, seed: int, **asked: Any) -> None:
    """Send a workload to an endpoint and say what came of it.

    One of --concurrency, --rate and --trace-times is needed. The folder gets `run.json` and
    `requests.jsonl`. The exit status is 1 where the run doesn't count: its generator lagged, too
    much failed, or it was interrupted.
    """
    try:
        held = read_workload(workload)
        plan = _plan(held, folder, seed, asked)
        facts, lines = run_plan(plan)
    except BenchError as error:
        click.echo(f"foreword bench run: {error}", err=True)
        raise click.exceptions.Exit(2) from error
    click.echo(f"wrote {folder}", err=True)
    targets = Targets(
        ttft_s=_seconds(asked["ttft_ms"]),
        tpot_s=_seconds(asked["tpot_ms"]),
        e2e_s=_seconds(asked["e2e_ms"]),
    )
    summaries = summarise_phases(lines, targets=targets, seed=seed)
    reuse = _reuse(held, facts, asked)
    if form == "json":
        told = {"schema_version": 1, "run": facts, "summaries": summaries, "reuse": reuse}
        click.echo(msgspec.json.encode(told).decode())
    else:
        _print(facts, summaries, reuse)
    if not facts.valid:
        for reason in facts.reasons:
            click.echo(f"not valid: {reason}", err=True)
        raise click.exceptions.Exit(1)


def _print(facts: RunFacts, summaries: Sequence[Summary], reuse: Sequence[Reuse]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    click.echo(heading(facts))
    for number, summary in enumerate(summaries):
        console.print(times_table(summary))
        # Each summary but the last is of the pass of its number.
        place = -1 if number + 1 == len(summaries) else number
        bound = reuse[place] if reuse else None
        click.echo("\n".join(summary_lines(summary, bound)))


def _plan(workload: Workload, folder: Path, seed: int, asked: dict[str, Any]) -> Plan:
    return Plan(
        url=asked["url"],
        folder=folder,
        workload=workload,
        load=_load(asked),
        seed=seed,
        model=asked["model"],
        api_key=_api_key(asked["api_key_env"]),
        extra=_object(asked["extra_body"]),
        ignore_eos=asked["ignore_eos"],
        limit=asked["limit_field"],
        warmup=asked["warmup"],
        flush=asked["flush"],
        passes=asked["passes"],
        timeout_s=asked["timeout_s"],
        real_time=asked["real_time"],
        engine_urls=tuple(url.rstrip("/") for url in asked["engine_urls"]),
        bounds=Bounds(max_lag_s=asked["max_lag_ms"] / 1000, max_errors=asked["max_errors"]),
        command=shlex.join(["foreword", *sys.argv[1:]]),
        labels=_labels(asked["labels"]),
    )


def _load(asked: dict[str, Any]) -> Load:
    chosen = [name for name in ("concurrency", "rate", "trace_times") if asked[name]]
    if len(chosen) != 1:
        raise click.UsageError("one of --concurrency, --rate and --trace-times is needed")
    most = asked["max_concurrency"]
    match chosen[0]:
        case "concurrency":
            if most is not None:
                raise click.UsageError("--max-concurrency goes with --rate or --trace-times")
            return Load(kind="closed", concurrency=asked["concurrency"])
        case "rate":
            shape = asked["burstiness"] if asked["arrivals"] == "gamma" else None
            return Load(
                kind=asked["arrivals"],
                rate_per_s=asked["rate"],
                burstiness=shape,
                concurrency=most,
            )
        case _:
            return Load(kind="trace", speedup=asked["speedup"], concurrency=most)


def _reuse(workload: Workload, facts: RunFacts, asked: dict[str, Any]) -> list[Reuse]:
    """For each pass. In words the size of an engine's pool, which is in tokens, says nothing."""
    if sum(len(bytes(request.body)) for request in workload.requests) > _MOST_BYTES:
        click.echo("the workload is too large to count what it could re-use", err=True)
        return []
    vocabulary = vocabulary_of(asked["tokenizer"])
    pool = asked["pool_tokens"]
    if pool is None and facts.engine is not None and vocabulary.unit == "tokens":
        told = facts.engine.memory.get("max_total_num_tokens")
        engines = facts.engine.memory.get("engines", 1)
        pool = told * engines if isinstance(told, int) else None
    return reuse_bounds(
        workload, vocabulary, page=asked["page_size"], pool=pool, passes=asked["passes"]
    )


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _api_key(name: str | None) -> str | None:
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        raise click.BadParameter(f"{name} is not set", param_hint="--api-key-env")
    return key


def _object(text: str) -> dict[str, Any]:
    try:
        told = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise click.BadParameter(f"it is not JSON: {error}", param_hint="--extra-body") from error
    if not isinstance(told, dict):
        raise click.BadParameter("it is no object", param_hint="--extra-body")
    return told


def _labels(pairs: tuple[str, ...]) -> dict[str, str]:
    made = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not (name and mark):
            raise click.BadParameter(f"{pair} is not NAME=VALUE", param_hint="--label")
        made[name] = value
    return made
