"""`python -m bench.verdicts`: labelled traffic to a running gateway, and what it said of it."""

import random
import sys
from pathlib import Path

import click
import httpx

from bench.errors import BenchError
from bench.verdicts.cases import Site
from bench.verdicts.drive import Bench, Driver
from bench.verdicts.plan import make_plan
from bench.verdicts.score import table
from bench.verdicts.texts import Texts


@click.command(context_settings={"show_default": True})
@click.option("--url", required=True, help="The gateway, which knows bench/verdicts/templates.")
@click.option("--engine", required=True, help="Its engine, whose cache is flushed.")
@click.option(
    "--model-path",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder with the engine's tokenizer.json and chat template.",
)
@click.option("--seed", type=int, default=None, help="The same traffic again.")
@click.option("--clean-requests", default=120, help="Requests in which nothing is wrong.")
@click.option("--chunk-tokens", default=64, help="The tiers' chunk.")
@click.option("--store-s", default=2.0, help="How long the tiers take to store a request's KV.")
def main(
    *,
    url: str,
    engine: str,
    model_path: Path,
    seed: int | None,
    clean_requests: int,
    chunk_tokens: int,
    store_s: float,
) -> None:
    """Causes that need a gateway whose evidence is taken away are left out.

    Nobody else may use the engine meanwhile.
    """
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    info = httpx.get(f"{engine}/server_info", trust_env=False).raise_for_status().json()
    texts = Texts(seed, model_path, page_tokens=info["page_size"], chunk_tokens=chunk_tokens)
    bench = Bench(
        sites={Site.PLAIN: url},
        engine=engine,
        pool_tokens=info["max_total_num_tokens"],
        store_s=store_s,
    )
    try:
        score = Driver(bench, texts).run(
            make_plan(texts, frozenset(bench.sites)), clean_requests=clean_requests
        )
    except BenchError as error:
        sys.exit(str(error))
    click.echo(f"seed {seed}\n{table(score)}")


if __name__ == "__main__":
    main()
