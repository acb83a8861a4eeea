"""`foreword plan [MODEL…]`: what KV pool and tiers hold, and what questions cost in each mode."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from app.commands.gateway import checked, gateway, gateway_options
from app.commands.plan_evaluate import evaluated, evaluation_options
from app.commands.plan_options import (
    MOST_TOKENS,
    Amount,
    PlanInputError,
    TierSize,
    free_mib_of,
    gpu_of,
    model_folder,
    tier_settings,
)
from app.commands.plan_pricing import priced_plan, pricing_options, wants_prices
from cache.errors import CacheError
from cache.kv_plan import (
    KvPlan,
    PlanOptions,
    gpu_names,
    make_plan,
    read_model_config,
    render_text,
    to_json,
)
from cache.kv_plan.derivation import problems

_COUNT = click.IntRange(1, MOST_TOKENS)


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]...")
@click.option("--gpu", help=f"one of {', '.join(gpu_names())}")
@click.option("--gpu-memory-gib", type=Amount(), help="of another GPU")
@click.option(
    "--free-gib",
    type=Amount(),
    help='free before loading, as in the engine\'s line "Load weight begin. avail mem"',
)
@click.option("--tp", type=_COUNT, default=1, show_default=True, help="GPUs together")
@click.option("--dtype", default="auto", show_default=True, help="the engine's --dtype")
@click.option(
    "--kv-dtype", default="auto", show_default=True, help="auto, bf16, fp8_e4m3 or fp8_e5m2"
)
@click.option(
    "--mem-fraction",
    type=Amount(1, open_end=True),
    help="the engine's --mem-fraction-static  [default: as SGLang picks it]",
)
@click.option("--page-size", type=_COUNT, default=16, show_default=True)
@click.option("--context", type=_COUNT, help="window  [default: the model's]")
@click.option("--max-total-tokens", type=_COUNT, help="a bound on the pool")
@click.option("--weights-gib", type=Amount(), help="of all weights")
@click.option(
    "--tier", "tiers", type=TierSize(), multiple=True, help="ram=16, ssd=200 or redis=32, in GiB"
)
@click.option("--chunk-tokens", type=_COUNT, default=64, show_default=True)
@click.option("--corpus-tokens", type=_COUNT, help="documents kept in the pool")
@click.option("--collection", help="the same, counted; only for the running engine")
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="FOREWORD_CACHE",
    default=Path("~/.cache/foreword"),
    help="where `foreword up` keeps its models",
)
@pricing_options
@evaluation_options
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text")
@gateway_options
def plan(
    models: Sequence[str],
    gpu: str | None,
    gpu_memory_gib: float | None,
    free_gib: float | None,
    tp: int,
    dtype: str,
    kv_dtype: str,
    mem_fraction: float | None,
    page_size: int,
    context: int | None,
    max_total_tokens: int | None,
    weights_gib: float | None,
    tiers: Sequence[tuple[str, float]],
    chunk_tokens: int,
    corpus_tokens: int | None,
    collection: str | None,
    cache: Path,
    output: str,
    url: str | None,
    home: Path,
    **more: Any,
) -> None:
    """How many tokens and requests the memory holds, as SGLang will say at its start.

    MODEL is a model folder, its config.json, or the default model's name. Without one, the engine
    that runs is asked through the gateway: its real pool and tiers, how fast they are, and what
    each collection's questions cost by retrieval and with the whole collection.

    With prices (--input-price, --gpu-hour, --prefill-speed) it is a plan in money. With --evaluate
    a collection's own questions are asked in each mode, and the answers are scored.

    Exits with 1 where a plan doesn't work out, such as weights that don't fit.
    """
    if more["evaluate"] is not None or wants_prices(more):
        if models:
            raise PlanInputError("MODEL has no place beside prices or --evaluate: leave it out")
        if more["evaluate"] is not None:
            click.echo(evaluated(more, output=output, url=url, home=home))
        else:
            click.echo(
                priced_plan(more, corpus_tokens=corpus_tokens, output=output, url=url, home=home)
            )
        return
    if not models:
        click.echo(_live(url, home, output, corpus_tokens, collection).rstrip("\n"))
        return
    if collection is not None:
        raise PlanInputError("--collection is counted by the running engine: give --corpus-tokens")
    try:
        card = gpu_of(gpu, gpu_memory_gib)
        options = PlanOptions(
            gpu=card,
            free_mib=free_mib_of(free_gib, card),
            ranks=tp,
            dtype=dtype,
            kv_dtype=kv_dtype,
            mem_fraction=mem_fraction,
            page_tokens=page_size,
            context_tokens=context,
            most_tokens=max_total_tokens,
            weight_bytes=round(weights_gib * 2**30) if weights_gib is not None else None,
            tiers=tier_settings(tiers, chunk_tokens=chunk_tokens, page_tokens=page_size),
            corpus_tokens=corpus_tokens,
        )
        plans = [_plan_of(model, options, cache) for model in models]
    except CacheError as error:
        raise PlanInputError(str(error)) from error
    click.echo(_rendered(plans, output))
    if any(problems(each) for each in plans):
        raise SystemExit(1)


def _plan_of(model: str, options: PlanOptions, cache: Path) -> KvPlan:
    path = model_folder(model, cache)
    config = read_model_config(path)
    return make_plan(config, options, folder=path if path.is_dir() else path.parent)


def _rendered(plans: Sequence[KvPlan], output: str) -> str:
    if output == "text":
        return "\n".join(render_text(each) for each in plans).rstrip("\n")
    values = [to_json(each) for each in plans]
    return json.dumps(values[0] if len(values) == 1 else values, indent=2)


def _live(
    url: str | None, home: Path, output: str, corpus_tokens: int | None, collection: str | None
) -> str:
    parameters: dict[str, str] = {"format": output}
    if corpus_tokens is not None:
        parameters["corpus_tokens"] = str(corpus_tokens)
    if collection is not None:
        parameters["collection"] = collection
    with gateway(url, home) as client:
        return checked(client.get("/foreword/plan", params=parameters)).text
