"""`foreword bench replay TRACE`: what a cache of any size would have found, without an engine."""

from pathlib import Path
from typing import Any

import click
import orjson

from bench.errors import BenchError
from bench.replay import results
from bench.replay.fleet import ROUTERS
from bench.replay.policies import POLICIES
from bench.replay.replaying import Plan, replay_trace
from bench.replay.steps import Rules
from bench.traces import FORMATS, SyntheticOptions, Trace, open_trace, synthetic_trace

_COUNT = click.IntRange(1)


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers from 1 on, with commas between them."""

    name = "N,N,…"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1:
            self.fail(f"{value!r} is no list of whole numbers from 1 on: 800,1600", param, ctx)
        return numbers


@click.command(context_settings={"show_default": True})
@click.argument("trace", type=click.Path(path_type=Path, exists=True, dir_okay=False),
                required=False)  # fmt: skip
@click.option("--synthetic", type=_COUNT, help="no file: so many made-up requests")
@click.option("--seed", default=1, help="of --synthetic")
@click.option("--per-s", default=100.0, help="requests a second of --synthetic")
@click.option("--openings", type=_COUNT, default=50, help="shared openings of --synthetic")
@click.option("--trace-format", type=click.Choice(FORMATS), help="[default: by its first line]")
@click.option("--block-tokens", type=_COUNT, help="of the trace's blocks  [default: its format's]")
@click.option("--page-tokens", type=_COUNT, help="of the cache's pages  [default: the trace's]")
@click.option("--whole-pages", is_flag=True,
              help="keep whole pages only, always compute the last token, as SGLang")  # fmt: skip
@click.option("--answers", is_flag=True, help="answers take room, too")
@click.option("--policy", "policies", type=click.Choice([*POLICIES, "none"]), multiple=True,
              default=("lru", "belady"))  # fmt: skip
@click.option("--capacities", type=_Numbers(), help="in pages  [default: octaves of what there is]")
@click.option("--tiers", type=_Numbers(), help="G1,G2,… in pages, each with all that is above it")
@click.option("--replicas", type=_Numbers(), help="a fleet of so many, each with --replica-pages")
@click.option("--replica-pages", type=_COUNT, default=3200)
@click.option("--router", "routers", type=click.Choice(sorted(ROUTERS)), multiple=True,
              default=tuple(sorted(ROUTERS)))  # fmt: skip
@click.option("--prefill-tokens-per-s", default=10_000.0, help="of one replica")
@click.option("--second-half", is_flag=True, help="the first half only fills the cache")
@click.option("--bounded", is_flag=True,
              help="memory by the largest capacity, not by the trace: no Belady")  # fmt: skip
@click.option("--moved", is_flag=True, help="also the bound for pieces that stand elsewhere")
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False),
              help="folder for rows.jsonl and replay.json")  # fmt: skip
def replay(
    trace: Path | None,
    trace_format: str | None,
    block_tokens: int | None,
    page_tokens: int | None,
    whole_pages: bool,
    answers: bool,
    policies: tuple[str, ...],
    form: str,
    out: Path | None,
    **asked: Any,
) -> None:
    """What a cache would find of a TRACE: by policy, capacity, tier and fleet.

    Mooncake's and Bailian's traces, request logs and the ledger's database; nothing is sent
    anywhere. Every rate is of all prompt tokens and stands beside what room without end would give.
    """
    made = {name: asked.pop(name) for name in ("synthetic", "seed", "per_s", "openings")}
    try:
        source = _source(trace, trace_format, block_tokens, **made)
        plan = Plan(
            rules=Rules(page_tokens=page_tokens, whole_pages=whole_pages, answers=answers),
            policies=tuple(name for name in policies if name != "none"),
            **asked,
        )
        told = replay_trace(source, plan)
    except BenchError as error:
        raise click.UsageError(str(error)) from error
    if out is not None:
        _write(out, told)
    match form:
        case "json":
            click.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2))
        case "jsonl":
            click.echo(_lines(told), nl=False)
        case _:
            click.echo(results.text(told))


def _source(
    trace: Path | None,
    trace_format: str | None,
    block_tokens: int | None,
    *,
    synthetic: int | None,
    seed: int,
    per_s: float,
    openings: int,
) -> Trace:
    if (trace is None) == (synthetic is None):
        raise click.UsageError("name a trace file, or --synthetic and how many requests")
    if trace is not None:
        return open_trace(trace, form=trace_format, block_tokens=block_tokens)
    assert synthetic is not None
    return synthetic_trace(
        SyntheticOptions(
            requests=synthetic, seed=seed, per_s=per_s, openings=openings,
            block_tokens=block_tokens or 512,
        )
    )  # fmt: skip


def _lines(told: dict[str, Any]) -> bytes:
    rows = (row for part in ("policies", "tiers", "fleet", "moved") for row in told[part])
    return b"".join(
        orjson.dumps({"trace": told["trace"], "scored": told["scored"], **row}) + b"\n"
        for row in rows
    )


def _write(folder: Path, told: dict[str, Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rows.jsonl").write_bytes(_lines(told))
        (folder / "replay.json").write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))
    except OSError as error:
        problem = f"can't be written: {error.strerror or error}"
        raise click.BadParameter(problem, param_hint="--out") from error
    click.echo(f"wrote {folder / 'rows.jsonl'} and replay.json", err=True)
